"""Malicious objects, malformed answers, and an API server restored from a backup."""

import copy
from collections.abc import AsyncGenerator

import msgspec
import pytest
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api
from tests.kubernetes.controllers.test_controllers import claim_ref, pool_status

from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.controllers import client
from gantry.runtime import http_interface

DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000


def address_of(kube: api.SimulatedKubernetes, name: str) -> str:
    """Return the address of a claim, empty if it has none or if its status refers to a missing object."""
    try:
        return server.address_of_claim(kube.api.known, name)
    except server.RefusedError:
        return ""


def cluster(name: str, version: int) -> bytes:
    head = b'{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"%s","namespace":"%s",'
    suffix = b'"uid":"u","resourceVersion":"%d"},"spec":{"variables":%s,"paused":false},"status":null}'
    return head % (name.encode(), server.SITE.encode()) + suffix % (version, DEEP)


async def event(body: bytes) -> AsyncGenerator[bytes, None]:
    yield b'{"type":"ADDED","object":%s}\n' % body


@pytest.mark.parametrize("by_watch", [False, True])
def test_an_object_that_is_nested_too_deep_does_not_hide_the_others(
    kube: api.SimulatedKubernetes, by_watch: bool
) -> None:
    def fault(request: http_interface.Request) -> http_interface.Response | None:
        if "/clusters?" not in request.path:
            return None
        if "watch=true" in request.path:
            return http_interface.Response(200, b"", pieces=event(cluster("edge", 9)))
        listed = b"" if by_watch else cluster("edge", 9)
        return http_interface.Response(200, b'{"metadata":{"resourceVersion":"8"},"items":[%s]}' % listed)

    async def check() -> None:
        kube.api.fault = fault
        kube.start()
        kube.put(server.pool(clusterName="edge"), server.claim("a"))
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.1")

    kube.world.run(check())


def test_what_lies_too_deep_is_left_out_and_what_looks_like_brackets_is_kept() -> None:
    class Shape(msgspec.Struct):
        text: str
        last: list[int]
        deep: msgspec.Raw = msgspec.Raw()

    body = b'{"text": "\\"}]{[\\\\", "deep": %s, "last": [1, 2]}' % DEEP
    decoded = client.decode(body, Shape)
    assert (decoded.text, decoded.last) == ('"}]{[\\', [1, 2])
    assert msgspec.json.decode(decoded.deep)
    with pytest.raises(client.UnknownError):
        client.decode(b'{"text": %s' % DEEP, Shape)


def test_names_that_somebody_wrote_into_a_status_lead_nowhere_else(kube: api.SimulatedKubernetes) -> None:
    evil = "../../../../api/v1/namespaces/kube-system/secrets/x?watch=1\r\nX: y#"

    async def check() -> None:
        kube.put(server.pool(), server.claim("a"))
        kube.api.known.patch(claim_ref("a"), {"status": {"address": {"name": evil}}}, subresource="status")
        kube.start()
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.1")
        paths = [path for _, path in kube.api.requests]
        assert not [
            requested
            for requested in paths
            if "/secrets" in requested or ".." in requested.split("/") or "\r" in requested
        ]

    kube.world.run(check())


def test_a_name_that_an_unreadable_object_has_is_passed_over(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        taken = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1")
        body = server.address(taken.name, "10.0.0.1", claim="x")
        kube.api.known.objects[taken] = {**body, "spec": ["10.0.0.1"]}
        kube.put(server.pool(), server.claim("a"))
        kube.start()
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.2")

    kube.world.run(check())


def test_an_address_that_cannot_be_read_any_more_is_still_in_use(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        printer = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "printer")
        kube.put(server.pool(), server.address("printer", "10.0.0.1", claim="x"))
        kube.start()
        await kube.until(lambda: pool_status(kube).used == 1)
        kube.api.known.objects[printer] = {**kube.api.known.objects[printer], "spec": ["10.0.0.1"]}
        lists = kube.api.requests.count(("GET", f"/apis/{ipam.GROUP}/v1alpha1/ipaddresses"))
        kube.put(server.pool("pool-2"))
        kube.api.forgotten = len(kube.api.known.events)
        kube.api.cut()
        again = ("GET", f"/apis/{ipam.GROUP}/v1alpha1/ipaddresses")
        await kube.until(lambda: kube.api.requests.count(again) > lists + 2)
        kube.put(server.claim("a"))
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.2")

    kube.world.run(check())


def test_somebody_who_undoes_our_work_again_and_again_does_not_make_us_write_as_fast_as_we_can(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.claim("a"))
        kube.start()
        clock = kube.world.clock
        began = clock.monotonic()
        while clock.monotonic() - began < 600:
            if address_of(kube, "a"):
                kube.api.known.patch(
                    claim_ref("a"), {"status": {"address": None, "ipAddress": None}}, subresource="status"
                )
                kube.api.notify()
            await clock.sleep(0.05)
        status_paths = [
            path for method, path in kube.api.requests if method == "PATCH" and path.endswith("/ipclaims/a/status")
        ]
        assert 10 < len(status_paths) < 600
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.1")

    kube.world.run(check())


def test_a_server_that_requests_an_endless_wait_is_called_again(kube: api.SimulatedKubernetes) -> None:
    timeout = [40]

    def fault(request: http_interface.Request) -> http_interface.Response | None:
        if request.method != "POST" or "/ipaddresses" not in request.path or not timeout:
            return None
        return api.refused(429, "TooManyRequests", **{"retry-after": "9" * 400 if timeout.pop() else "1"})

    async def check() -> None:
        kube.api.fault = fault
        timeout[:] = [1]
        kube.start()
        kube.put(server.pool(), server.claim("a"))
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.1", limit=900)

    kube.world.run(check())


def test_a_server_that_is_set_back_to_a_backup_is_believed(kube: api.SimulatedKubernetes) -> None:
    def too_new(request: http_interface.Request) -> http_interface.Response | None:
        version = request.path.partition("resourceVersion=")[2].partition("&")[0]
        if "watch=true" in request.path and int(version) > len(kube.api.known.events):
            return api.refused(504, "Timeout")
        return None

    async def check() -> None:
        known = kube.api.known
        kube.put(server.pool(), server.claim("a"))
        kube.start()
        await kube.until(lambda: address_of(kube, "a") == "10.0.0.1")
        backup = copy.deepcopy((known.objects, known.events, known.log))
        kube.delete(claim_ref("a"))
        kube.put(server.claim("b"))
        await kube.until(lambda: bool(address_of(kube, "b")))
        for number in range(200):
            # The server must not come back to versions that were seen by itself.
            known.patch(ipam.pool_ref(server.SITE, "pool-1"), {"metadata": {"labels": {"n": str(number)}}})
        kube.api.notify()
        await kube.world.clock.sleep(1.0)
        known.objects, known.events, known.log = backup
        kube.api.fault = too_new
        kube.api.cut()
        kube.put(server.claim("c"))
        await kube.until(lambda: bool(address_of(kube, "c")))
        assert address_of(kube, "a") == "10.0.0.1" != address_of(kube, "c")
        await kube.until(lambda: pool_status(kube).indexes.keys() == {"a", "c"})
        kube.delete(claim_ref("a"))
        await kube.until(lambda: claim_ref("a") not in known.objects)
        assert meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1") not in known.objects

    kube.world.run(check())
