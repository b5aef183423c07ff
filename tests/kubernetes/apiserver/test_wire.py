"""Discovery, OpenAPI, content types, and errors of requests."""

from pathlib import Path

import pytest
from tests.kubernetes.apiserver import api

from gantry.doors import http
from gantry.kubernetes import apiserver
from gantry.runtime import http_interface, real

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
LIST = "as=APIGroupDiscoveryList"
V2, V2BETA1 = (f"application/json;g=apidiscovery.k8s.io;v={form};{LIST}" for form in ("v2", "v2beta1"))
PROTOBUF = "application/vnd.kubernetes.protobuf"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(("accept", "version"), [(f"{V2},{V2BETA1},application/json", "v2"), (V2BETA1, "v2beta1")])
async def test_discovery_in_one_document_is_in_the_version_asked_for(kube: api.Api, accept: str, version: str) -> None:
    for path in ("/api", "/apis"):
        answer = await kube.get(path, accept=accept)
        assert answer.body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        assert answer.headers["Content-Type"] == f"application/json;g=apidiscovery.k8s.io;v={version};{LIST}"
    groups = {str(api.Answer(200, item).at("metadata.name")): api.Answer(200, item) for item in answer.items}
    pool = groups["ipam.metal3.io"].at("versions.0.resources.0")
    assert isinstance(pool, dict)
    assert (pool["resource"], pool["scope"], pool["singularResource"]) == ("ippools", "Namespaced", "ippool")
    assert "m3ipp" in pool["shortNames"]
    assert pool["subresources"][0]["subresource"] == "status"
    assert [entry["version"] for entry in _list(groups["ipam.cluster.x-k8s.io"].at("versions"))] == [
        "v1beta2",
        "v1beta1",
    ]


async def test_plain_discovery_goes_group_by_group(kube: api.Api) -> None:
    assert (await kube.get("/api/")).body["versions"] == ["v1"]
    groups = _list((await kube.get("/apis", accept="application/json")).body["groups"])
    for group in groups:
        for version in _list(group["versions"]):
            path = f"/apis/{version['groupVersion']}"
            listed = await kube.get(path)
            assert listed.body["groupVersion"] == version["groupVersion"]
            for resource in _list(listed.body["resources"]):
                if "/" not in str(resource["name"]):
                    assert (await kube.get(f"{path}/{resource['name']}")).items == []
        assert (await kube.get(f"/apis/{group['name']}")).body["name"] == group["name"]
    assert {group["name"] for group in groups} >= {"ipam.metal3.io", "coordination.k8s.io"}
    names = {resource["name"] for resource in _list((await kube.get("/api/v1")).body["resources"])}
    assert names == {"namespaces", "namespaces/status", "events", "secrets"}


def _list(value: object) -> list[api.Json]:
    assert isinstance(value, list)
    return value


async def test_openapi_3_leads_to_a_document_for_each_group(kube: api.Api) -> None:
    paths = (await kube.get("/openapi/v3")).body["paths"]
    assert isinstance(paths, dict)
    assert {"api/v1", "apis/ipam.metal3.io/v1alpha1"} <= set(paths)
    document = await kube.get(paths["apis/ipam.metal3.io/v1alpha1"]["serverRelativeURL"])
    schemas = document.at("components.schemas")
    assert isinstance(schemas, dict)
    kinds = {entry["kind"] for each in schemas.values() for entry in each["x-kubernetes-group-version-kind"]}
    assert kinds == {"IPPool", "IPClaim", "IPAddress"}
    assert (await kube.get("/openapi/v3/apis/nobody/v1")).refusal[0] == 404


async def test_openapi_2_is_json_for_all_who_do_not_ask_for_its_protocol_buffers(kube: api.Api) -> None:
    answer = await kube.get("/openapi/v2", accept=f"{PROTOBUF}, */*")
    assert (answer.body["swagger"], answer.headers["Content-Type"]) == ("2.0", "application/json")
    document = answer.body["paths"]
    assert isinstance(document, dict)
    assert "/api/v1/namespaces/{name}" in document


async def test_version_and_health_are_reported(kube: api.Api) -> None:
    assert (await kube.get("/version/")).body["major"] == "1"
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await kube.get(path)).body == {"text": "ok"}


async def test_a_server_that_stores_nothing_any_more_is_not_healthy(tmp_path: Path) -> None:
    application = apiserver.Application(real.RealRuntime(), str(tmp_path))
    await application.open()
    await application.close()
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await application.answer(http_interface.Request("GET", path, b""), http.Trace(""))
        assert (answer.status, answer.body) == (500, b"the object store has failed; restart the server")


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


async def test_namespaces_and_secrets_are_read_in_protocol_buffers(kube: api.Api) -> None:
    def body(kind: bytes, inside: bytes) -> bytes:
        return b"k8s\0" + _field(1, _field(1, b"v1") + _field(2, kind)) + _field(2, inside)

    label = _field(11, _field(1, b"tier") + _field(2, b"web"))
    # The server says when an object was made, and what state it is in.
    named = _field(1, _field(1, b"site") + b"\x38\x05" + _field(8, b"") + label + _field(14, b"example.com/a"))
    created = await kube.say("POST", api.NAMESPACES, body(b"Namespace", named + _field(3, b"")), kind=PROTOBUF)
    assert (created.status, created.at("metadata.labels"), created.at("metadata.finalizers")) == (
        201, {"tier": "web"}, ["example.com/a"],
    )  # fmt: skip
    owner = (
        _field(1, b"Namespace") + _field(3, b"site") + _field(4, created.uid.encode()) + _field(5, b"v1") + b"\x30\x01"
    )
    secret = _field(1, _field(1, b"s") + _field(13, owner)) + _field(2, _field(1, b"k") + _field(2, b"v")) + b"\x28\x01"
    kept = await kube.say("POST", api.SECRETS, body(b"Secret", secret), kind=PROTOBUF)
    assert (kept.at("data"), kept.at("immutable")) == ({"k": "dg=="}, True)
    assert kept.at("metadata.ownerReferences.0.controller") is True
    lease = body(b"Lease", _field(1, _field(1, b"x")))
    assert (await kube.say("POST", api.LEASES, lease, kind=PROTOBUF)).refusal[0] == 415


@pytest.mark.parametrize(
    "end", [b"", b"\x0a", b"\x0a\x05ab", b"\x0b", b"\x0a\x03\x0a\x01\xff", b"\xff" * 12, b"\x0d12"]
)
async def test_protocol_buffers_that_cannot_be_read_are_bad(kube: api.Api, end: bytes) -> None:
    head = _field(1, _field(1, b"v1") + _field(2, b"Secret"))
    answer = await kube.say("POST", api.SECRETS, b"k8s\0" + head + _field(2, _field(1, end)), kind=PROTOBUF)
    assert answer.refusal[0] in (400, 422)
    assert (await kube.say("POST", api.SECRETS, end, kind=PROTOBUF)).refusal[0] == 400


async def test_a_refusal_names_the_field_as_the_client_does(kube: api.Api) -> None:
    await kube.add(api.POOLS, api.pool())
    path = f"{api.POOLS}/pool-1"
    for answer, text in (
        (await kube.delete(path, {"preconditions": 5}), "preconditions: must be an object"),
        (await kube.patch(path, [{"op": 5, "path": "/a"}], api.STEPS), "item 1 op: must be a text, not a whole number"),
        (await kube.patch(path, {"metadata": {"finalizers": 5}}), "finalizers: must be a list"),
    ):
        assert text in answer.refusal[2]
        assert "$" not in answer.refusal[2]


async def test_bodies_in_yaml_are_read(kube: api.Api) -> None:
    text = b"apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata:\n  name: y\n  annotations: {at: 2020-01-01}\n"
    refused = await kube.say("POST", api.POOLS, text, kind="application/yaml")
    # A date in YAML is no text, and is not taken for one.
    assert refused.refusal[0] in (400, 422)
    created = await kube.say(
        "POST", api.POOLS, text.replace(b"2020-01-01", b"'x'") + b"spec: {namePrefix: y}\n", kind="application/yaml"
    )
    assert created.status == 201


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff", b'{"metadata": 3}', b"[" * 100_000])
async def test_bodies_that_are_no_objects_are_bad(kube: api.Api, body: bytes) -> None:
    assert (await kube.say("POST", api.POOLS, body)).refusal[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    "path",
    ["/", "/apis/nobody", "/apis/nobody/v1", "/api/v2", "/apis/ipam.metal3.io/v2/ippools", f"{api.HERE}/nothing",
     f"{api.POOLS}/a/scale", f"{api.POOLS}/a/status/b", f"{api.IPAM}/ippools/a", "/apis//v1/secrets", "/x"],
)  # fmt: skip
async def test_what_is_not_served_is_not_found(kube: api.Api, path: str) -> None:
    refused = await kube.get(path)
    assert refused.refusal == (404, "NotFound", "the server could not find the requested resource")
