"""OpenAPI 2 in Protocol Buffers has the content of the JSON document, and is sent if the client prefers it."""

import json

import msgspec
import pytest

from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import discovery, openapi_v2, protobuf

PATH = ("openapi", "v2")
Fields = dict[int, list[bytes]]


def fields(data: bytes) -> Fields:
    values: Fields = {}
    for number, value in protobuf._fields(data):
        assert isinstance(value, bytes)
        values.setdefault(number, []).append(value)
    return values


def named(listed: list[bytes]) -> dict[str, Fields]:
    """Decode messages with a name and a value, by name."""
    return {item[1][0].decode(): fields(item[2][0]) for item in map(fields, listed)}


def plain() -> schema.Json:
    answer = discovery.answer(PATH, "application/json")
    assert answer
    return msgspec.json.decode(answer[0], type=schema.Json)


def packed() -> Fields:
    answer = discovery.answer(PATH, openapi_v2.ACCEPTED_TYPES[1])
    assert answer
    assert answer[1] == openapi_v2.CONTENT_TYPE
    return fields(answer[0])


def test_all_kinds_are_there_with_their_fields() -> None:
    kinds, expected = named(fields(packed()[9][0])[1]), msgspec.convert(plain()["definitions"], dict[str, schema.Json])
    assert set(kinds) == set(expected)
    name = "io.metal3.ipam.v1alpha1.IPPool"
    spec = named(fields(named(fields(kinds[name][25][0])[1])["spec"][25][0])[1])
    assert set(spec) == set(expected[name]["properties"]["spec"]["properties"])  # type: ignore[index]
    pools = fields(fields(spec["pools"][23][0])[1][0])
    assert (fields(spec["pools"][22][0])[1], fields(pools[22][0])[1]) == ([b"array"], [b"object"])
    extensions = {key: json.loads(item[2][0]) for key, item in named(kinds[name][31]).items()}
    assert extensions["x-kubernetes-group-version-kind"][0]["kind"] == "IPPool"


def test_paths_tell_which_parameters_a_patch_takes() -> None:
    paths = named(fields(packed()[8][0])[2])
    assert set(paths) == set(msgspec.convert(plain()["paths"], schema.Json))
    patch = fields(paths["/apis/ipam.metal3.io/v1alpha1/namespaces/{namespace}/ippools/{name}"][8][0])
    queries = [fields(fields(fields(fields(item)[1][0])[2][0])[3][0]) for item in patch[8]]
    assert {query[4][0] for query in queries} == {b"dryRun", b"fieldManager", b"fieldValidation", b"force"}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        (f"application/json, {openapi_v2.ACCEPTED_TYPES[1]}", "application/json"),
        (f"text/html, {openapi_v2.ACCEPTED_TYPES[1]}, application/json", openapi_v2.CONTENT_TYPE),
        (openapi_v2.CONTENT_TYPE, openapi_v2.CONTENT_TYPE),
    ],
)
def test_the_form_is_the_one_asked_for_first(accept: str, kind: str) -> None:
    answer = discovery.answer(PATH, accept)
    assert answer
    assert answer[1] == kind
