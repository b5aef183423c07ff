"""Limits of a request: none crashes the server, blocks it for long, or fills its memory."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.kubernetes.apiserver import api

from gantry.kubernetes import apiserver
from gantry.kubernetes.apiserver import read, store
from gantry.runtime.real import http_messages

CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def cluster(inside: bytes) -> bytes:
    head = b'{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"c"},"spec":{"free":'
    return head + inside + b"}}"


@pytest.mark.parametrize("depth", [150, 400, 700, 100_000])
async def test_a_body_that_is_nested_too_deep_is_bad(kube: api.Api, depth: int) -> None:
    answer = await kube.say("POST", CLUSTERS, cluster(nested(depth)))
    assert answer.refusal[:2] == (400, "BadRequest")
    assert (await kube.say("POST", CLUSTERS, cluster(nested(90)))).status == 201
    for accept in ("application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1"):
        assert (await kube.get(f"{CLUSTERS}/c", accept=accept)).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"- " * 300_000 + b"1",
        b"[" * 300_000,
        b"\n".join(b" " * indent + b"a:" for indent in range(200)),
        b"a: &a [1]\nb: *a\n",
        b"a: &a [*a]\n",
        b"a: &a {b: 1}\nc:\n  <<: *a\n",
        b"a: %s" % (b"1" * 5000),
        b"a: 0x%s" % (b"f" * 5000),
        b"a: %s1" % (b"59:" * 2000),
        b"a: !!int one",
        b"a: !!bool one",
        b"a: !!timestamp one",
        b"a: !!binary AAAA",
    ],
)
async def test_yaml_beyond_json_and_its_limits_is_bad(kube: api.Api, body: bytes) -> None:
    answer = await kube.say("POST", api.POOLS, body, kind="application/yaml")
    assert answer.refusal[:2] == (400, "BadRequest")
    answer = await kube.say("PATCH", f"{api.POOLS}/pool-1?fieldManager=x", body, kind=api.APPLY)
    assert answer.refusal[:2] == (400, "BadRequest")


@pytest.mark.parametrize("source", ["", "/spec"])
async def test_a_patch_that_copies_again_and_again_is_refused(kube: api.Api, source: str) -> None:
    await kube.add(api.POOLS, api.pool())
    steps = [{"op": "copy", "from": source, "path": f"/spec/x{number}"} for number in range(40)]
    assert (await kube.patch(f"{api.POOLS}/pool-1", steps, api.STEPS)).status in (400, 413, 422)
    assert (await kube.get(f"{api.POOLS}/pool-1")).at("spec.x0") is None


@pytest.mark.parametrize(
    "step",
    [
        {"op": "remove", "path": ""},
        {"op": "move", "from": "", "path": "/spec"},
        {"op": "remove", "path": f"/spec/pools/{'9' * 4400}"},
        {"op": "add", "path": f"/spec/pools/{'9' * 4400}", "value": {}},
    ],
)
async def test_a_patch_of_what_no_object_can_have_is_refused(kube: api.Api, step: api.Json) -> None:
    before = await kube.add(api.POOLS, api.pool())
    answer = await kube.patch(f"{api.POOLS}/pool-1", [step], api.STEPS)
    assert answer.refusal[:2] == (422, "Invalid")
    assert (await kube.get(f"{api.POOLS}/pool-1")).version == before.version


async def test_a_patch_may_put_another_object_where_it_removed_the_whole(kube: api.Api) -> None:
    before = await kube.add(api.POOLS, api.pool())
    other = {**before.body, "spec": {**api.pool(gateway="10.0.0.254")["spec"]}}  # type: ignore[dict-item]
    steps = [{"op": "remove", "path": ""}, {"op": "add", "path": "", "value": other}]
    answer = await kube.patch(f"{api.POOLS}/pool-1", steps, api.STEPS)
    assert (answer.status, answer.at("spec.gateway")) == (200, "10.0.0.254")


async def test_a_patch_cannot_nest_deeper_than_a_body(kube: api.Api) -> None:
    await kube.say("POST", CLUSTERS, cluster(b"{}"))
    steps = [
        {"op": "add", "path": "/spec/free" + "/a" * depth, "value": json.loads(nested(80))} for depth in (1, 81, 161)
    ]
    answer = await kube.patch(f"{CLUSTERS}/c", steps, api.STEPS)
    assert answer.refusal[0] == 400


async def test_a_body_and_an_object_have_a_largest_size(kube: api.Api) -> None:
    pool = await kube.add(api.POOLS, api.pool())
    most = store.MAX_OBJECT_BYTES
    large = {"metadata": {"annotations": {"note": "x" * most}}}
    assert (await kube.patch(f"{api.POOLS}/pool-1", large)).refusal[:2] == (413, "RequestEntityTooLarge")
    assert (await kube.get(f"{api.POOLS}/pool-1")).version == pool.version
    larger = {"metadata": {"annotations": {"note": "x" * apiserver.MAX_BODY_BYTES}}}
    assert (await kube.patch(f"{api.POOLS}/pool-1", larger)).refusal[:2] == (413, "RequestEntityTooLarge")
    assert (await kube.patch(f"{api.POOLS}/pool-1", {"metadata": {"labels": {"a": "b"}}})).status == 200


async def test_an_object_of_the_largest_size_can_be_deleted(kube: api.Api) -> None:
    body = api.pool()
    note = "x" * (store.MAX_OBJECT_BYTES - 2000)
    body["metadata"] = {"name": "pool-1", "finalizers": ["a.b/c"], "annotations": {"note": note}}
    await kube.add(api.POOLS, body)
    assert (await kube.delete(f"{api.POOLS}/pool-1")).at("metadata.deletionTimestamp")
    assert (await kube.patch(f"{api.POOLS}/pool-1", {"metadata": {"finalizers": []}})).status == 200


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "resourceVersion"])
async def test_a_number_of_five_thousand_digits_is_bad(kube: api.Api, name: str) -> None:
    for watch in ("false", "true"):
        answer = await kube.get(f"{api.POOLS}?watch={watch}&{name}={'9' * 5000}")
        assert answer.refusal[:2] == (400, "BadRequest")


async def test_a_refusal_does_not_list_a_hundred_thousand_reasons(kube: api.Api) -> None:
    body = api.pool()
    body["spec"] = {"namePrefix": "p", "pools": [1] * 100_000}
    answer = await kube.say("POST", api.POOLS, body)
    assert answer.status == 422
    assert 1 <= len(answer.fields) <= 100


@pytest.mark.slow
async def test_a_protobuf_body_of_a_million_texts_is_read_at_once(kube: api.Api) -> None:
    finalizers = b"\x72\x01a" * 900_000
    inside = _field(1, _field(1, b"n") + finalizers)
    body = b"k8s\0" + _field(1, _field(1, b"v1") + _field(2, b"Namespace")) + _field(2, inside)
    answer = await kube.say("POST", api.NAMESPACES, body, kind="application/vnd.kubernetes.protobuf")
    assert answer.status == 413


def _field(number: int, value: bytes) -> bytes:
    size, out = len(value), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(out) + bytes([size]) + value


async def test_watches_above_the_limit_are_refused_with_retry_after(
    kube: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_WATCHES", 3)
    monkeypatch.setattr(http_messages, "DISCONNECT_POLL_SECONDS", 0.05)
    async with AsyncExitStack() as watches:
        for _ in range(3):
            events = await watches.enter_async_context(kube.watch(api.POOLS))
        async with kube.watch(api.POOLS) as refused:
            kind, answer = await refused.next()
            assert (kind, answer.at("code"), answer.at("reason")) == ("ERROR", 429, "TooManyRequests")
        await kube.add(api.POOLS, api.pool())
        assert await events.named() == ("ADDED", "pool-1")

    async def begins() -> bool:
        async with kube.watch(api.POOLS) as events:
            return (await events.next())[0] == "ADDED"

    async with asyncio.timeout(api.TIMEOUT):
        while not await begins():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "head",
    [
        b"GET %s HTTP/1.1\r\nAccept: application/json;as=Table;g=meta.k8s.io;v=\xff\r\n" % api.POOLS.encode(),
        b"GET %s HTTP/1.1\r\nAuthorization: Bearer \xff\r\n" % api.POOLS.encode(),
        b"POST %s HTTP/1.1\r\nUser-Agent: \xff\r\nContent-Type: \xff\r\n" % api.POOLS.encode(),
    ],
)
async def test_bytes_that_are_no_characters_do_not_make_the_server_fail(tmp_path: Path, head: bytes) -> None:
    async with api.api(tmp_path, tokens={"secret": "admin"} if b"Bearer" in head else None) as kube:
        reader, writer = await asyncio.open_connection("127.0.0.1", kube.port)
        body = json.dumps(api.pool()).encode()
        writer.write(head + b"Host: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        async with asyncio.timeout(api.TIMEOUT):
            answer = await reader.read()
        writer.close()
    assert int(answer.split()[1]) < 500, answer
