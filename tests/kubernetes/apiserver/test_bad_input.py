"""Any request is answered by an object or by a Status with the error, never by an internal error."""

import asyncio
import copy
import tempfile
from urllib import parse

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubernetes.apiserver import api

from gantry.doors import http
from gantry.kubernetes import apiserver
from gantry.runtime import http_interface, real

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3)
)
FIELD_PATHS = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "metadata.name",
    "metadata.labels",
    "metadata.finalizers",
    "metadata.ownerReferences",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata.generateName",
    "spec.pools",
    "spec.prefix",
    "spec.preAllocations",
    "spec.pool",
    "spec.namePrefix",
    "data",
    "stringData",
]
PATHS = [api.POOLS, api.CLAIMS, api.ADDRESSES, api.SECRETS, api.EVENTS, api.LEASES, api.NAMESPACES]
NAMES = ["", "/pool-1", "/pool-1/status", "/claim-1", "/%00", "/ä"]
REQUESTS = [
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "propagationPolicy",
    "includeObject",
    "timeoutSeconds",
]
KINDS = ["", "application/json", "application/yaml", api.MERGE, api.STEPS, api.APPLY,
         "application/vnd.kubernetes.protobuf", "application/strategic-merge-patch+json"]  # fmt: skip
ACCEPTS = ["", "*/*", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1", "a;b=c;;=,",
           "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]  # fmt: skip
BODIES = [api.pool(), api.claim("claim-1"), api.address("pool-1-10-0-0-1", "10.0.0.1"), api.secret("pool-1")]
STEPS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "value": VALUES},
        optional={
            "path": st.sampled_from(["", "/", "/spec", "/spec/pools/0", "/metadata", "/metadata/name", "/kind", "/~2"]),
            "from": st.sampled_from(["", "/spec", "/metadata/labels/a"]),
        },
    ),
    max_size=3,
)


@st.composite
def _objects(draw: st.DrawFn) -> api.Json:
    body = copy.deepcopy(draw(st.sampled_from(BODIES)))
    for path in draw(st.lists(st.sampled_from(FIELD_PATHS), max_size=3)):
        first, _, second = path.partition(".")
        inside = body.setdefault(first, {}) if second else body
        if isinstance(inside, dict):
            inside[second or first] = draw(VALUES)
    return body


@st.composite
def _requests(draw: st.DrawFn) -> http_interface.Request:
    query = draw(
        st.dictionaries(
            st.sampled_from(REQUESTS), st.text(max_size=6) | st.sampled_from(["All", "Strict", "a in (b)"]), max_size=3
        )
    )
    path = draw(st.sampled_from(PATHS)) + draw(st.sampled_from(NAMES)) + (f"?{parse.urlencode(query)}" if query else "")
    sent = draw(_objects() | VALUES | STEPS)
    body = draw(st.just(msgspec.json.encode(_plain(sent))) | st.binary(max_size=40))
    headers = {"content-type": draw(st.sampled_from(KINDS)), "accept": draw(st.sampled_from(ACCEPTS))}
    return http_interface.Request(draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])), path, body, headers)


def _plain(value: object) -> object:
    """Return the value without integers above 64 bits, which msgspec cannot encode."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


@given(st.lists(_requests(), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_no_request_makes_the_server_fail(requests: list[http_interface.Request]) -> None:
    async def check(folder: str) -> None:
        application = apiserver.Application(real.RealRuntime(), folder)
        await application.open()
        web_server = http.Server(real.RealRuntime(), application)
        for request in requests:
            answer = await web_server.answer(request)
            assert answer.status < 500, (request, answer.body)
            if answer.status >= 400:
                assert msgspec.json.decode(answer.body, type=api.Json)["kind"] == "Status"
        await application.close()
        again = apiserver.Application(real.RealRuntime(), folder)
        await again.open()
        await again.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(folder))


async def test_a_field_of_an_object_is_applied_where_a_plain_value_was(kube: api.Api) -> None:
    lease: api.Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease-1"}}
    await kube.add(api.LEASES, {**lease, "spec": "plain"})
    path = f"{api.LEASES}/lease-1?fieldManager=one&force=true"
    answer = await kube.patch(path, {**lease, "spec": {"holderIdentity": "me"}}, api.APPLY)
    assert (answer.status, answer.at("spec")) == (200, {"holderIdentity": "me"})


@pytest.mark.parametrize("field", ["a\0b", "a\r\nX-Injected: b", "a\x7fb", 'a"\\b', "ä\u200b", "x" * 5000])
async def test_an_unknown_field_is_reported_whatever_its_name(kube: api.Api, field: str) -> None:
    pool = api.pool("one")
    spec = msgspec.convert(pool["spec"], api.Json)
    answer = await kube.say("POST", api.POOLS, {**pool, "spec": {**spec, field: 1}})
    assert answer.status == 201, answer
    assert "X-Injected" not in answer.headers
    assert answer.headers["Warning"].startswith('299 - "unknown field \\"spec.')
    assert len(answer.headers["Warning"]) < 1000
    refused = await kube.say("POST", f"{api.POOLS}?fieldValidation=Strict", {**pool, "spec": {**spec, field: 1}})
    assert refused.refusal[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    ("field", "written"), [("a\0b", r"a\\x00b"), ("a\r\nb", r"a\\r\\nb"), ("a\x7fb", r"a\\x7fb"), ("a", "a")]
)
async def test_the_warning_about_an_unknown_field_quotes_it_as_go_does(kube: api.Api, field: str, written: str) -> None:
    pool = api.pool("one")
    spec = msgspec.convert(pool["spec"], api.Json)
    answer = await kube.say("POST", api.POOLS, {**pool, "spec": {**spec, field: 1}})
    assert answer.headers["Warning"] == rf'299 - "unknown field \"spec.{written}\""'
