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


def address_of(site: api.Site, name: str) -> str:
    """Return the address of a claim, empty if it has none or if its status refers to a missing object."""
    try:
        return server.address_of_claim(site.api.known, name)
    except server.RefusedError:
        return ""


def cluster(name: str, version: int) -> bytes:
    head = b'{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"%s","namespace":"%s",'
    suffix = b'"uid":"u","resourceVersion":"%d"},"spec":{"variables":%s,"paused":false},"status":null}'
    return head % (name.encode(), server.SITE.encode()) + suffix % (version, DEEP)


async def event(body: bytes) -> AsyncGenerator[bytes, None]:
    yield b'{"type":"ADDED","object":%s}\n' % body


@pytest.mark.parametrize("by_watch", [False, True])
def test_an_object_that_is_nested_too_deep_does_not_hide_the_others(site: api.Site, by_watch: bool) -> None:
    def fault(request: http_interface.Request) -> http_interface.Response | None:
        if "/clusters?" not in request.path:
            return None
        if "watch=true" in request.path:
            return http_interface.Response(200, b"", pieces=event(cluster("edge", 9)))
        listed = b"" if by_watch else cluster("edge", 9)
        return http_interface.Response(200, b'{"metadata":{"resourceVersion":"8"},"items":[%s]}' % listed)

    async def check() -> None:
        site.api.fault = fault
        site.start()
        site.put(server.pool(clusterName="edge"), server.claim("a"))
        await site.until(lambda: address_of(site, "a") == "10.0.0.1")

    site.world.run(check())


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


def test_names_that_somebody_wrote_into_a_status_lead_nowhere_else(site: api.Site) -> None:
    evil = "../../../../api/v1/namespaces/kube-system/secrets/x?watch=1\r\nX: y#"

    async def check() -> None:
        site.put(server.pool(), server.claim("a"))
        site.api.known.patch(claim_ref("a"), {"status": {"address": {"name": evil}}}, subresource="status")
        site.start()
        await site.until(lambda: address_of(site, "a") == "10.0.0.1")
        paths = [path for _, path in site.api.requests]
        assert not [
            requested
            for requested in paths
            if "/secrets" in requested or ".." in requested.split("/") or "\r" in requested
        ]

    site.world.run(check())


def test_a_name_that_an_unreadable_object_has_is_passed_over(site: api.Site) -> None:
    async def check() -> None:
        taken = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1")
        body = server.address(taken.name, "10.0.0.1", claim="x")
        site.api.known.objects[taken] = {**body, "spec": ["10.0.0.1"]}
        site.put(server.pool(), server.claim("a"))
        site.start()
        await site.until(lambda: address_of(site, "a") == "10.0.0.2")

    site.world.run(check())


def test_an_address_that_cannot_be_read_any_more_is_still_in_use(site: api.Site) -> None:
    async def check() -> None:
        printer = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "printer")
        site.put(server.pool(), server.address("printer", "10.0.0.1", claim="x"))
        site.start()
        await site.until(lambda: pool_status(site).used == 1)
        site.api.known.objects[printer] = {**site.api.known.objects[printer], "spec": ["10.0.0.1"]}
        lists = site.api.requests.count(("GET", f"/apis/{ipam.GROUP}/v1alpha1/ipaddresses"))
        site.put(server.pool("pool-2"))
        site.api.forgotten = len(site.api.known.events)
        site.api.cut()
        again = ("GET", f"/apis/{ipam.GROUP}/v1alpha1/ipaddresses")
        await site.until(lambda: site.api.requests.count(again) > lists + 2)
        site.put(server.claim("a"))
        await site.until(lambda: address_of(site, "a") == "10.0.0.2")

    site.world.run(check())


def test_somebody_who_undoes_our_work_again_and_again_does_not_make_us_write_as_fast_as_we_can(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.claim("a"))
        site.start()
        clock = site.world.clock
        began = clock.monotonic()
        while clock.monotonic() - began < 600:
            if address_of(site, "a"):
                site.api.known.patch(
                    claim_ref("a"), {"status": {"address": None, "ipAddress": None}}, subresource="status"
                )
                site.api.notify()
            await clock.sleep(0.05)
        status_paths = [
            path for method, path in site.api.requests if method == "PATCH" and path.endswith("/ipclaims/a/status")
        ]
        assert 10 < len(status_paths) < 600
        await site.until(lambda: address_of(site, "a") == "10.0.0.1")

    site.world.run(check())


def test_a_server_that_requests_an_endless_wait_is_called_again(site: api.Site) -> None:
    timeout = [40]

    def fault(request: http_interface.Request) -> http_interface.Response | None:
        if request.method != "POST" or "/ipaddresses" not in request.path or not timeout:
            return None
        return api.refused(429, "TooManyRequests", **{"retry-after": "9" * 400 if timeout.pop() else "1"})

    async def check() -> None:
        site.api.fault = fault
        timeout[:] = [1]
        site.start()
        site.put(server.pool(), server.claim("a"))
        await site.until(lambda: address_of(site, "a") == "10.0.0.1", limit=900)

    site.world.run(check())


def test_a_server_that_is_set_back_to_a_backup_is_believed(site: api.Site) -> None:
    def too_new(request: http_interface.Request) -> http_interface.Response | None:
        version = request.path.partition("resourceVersion=")[2].partition("&")[0]
        if "watch=true" in request.path and int(version) > len(site.api.known.events):
            return api.refused(504, "Timeout")
        return None

    async def check() -> None:
        known = site.api.known
        site.put(server.pool(), server.claim("a"))
        site.start()
        await site.until(lambda: address_of(site, "a") == "10.0.0.1")
        backup = copy.deepcopy((known.objects, known.events, known.log))
        site.delete(claim_ref("a"))
        site.put(server.claim("b"))
        await site.until(lambda: bool(address_of(site, "b")))
        for number in range(200):
            # The server must not come back to versions that were seen by itself.
            known.patch(ipam.pool_ref(server.SITE, "pool-1"), {"metadata": {"labels": {"n": str(number)}}})
        site.api.notify()
        await site.world.clock.sleep(1.0)
        known.objects, known.events, known.log = backup
        site.api.fault = too_new
        site.api.cut()
        site.put(server.claim("c"))
        await site.until(lambda: bool(address_of(site, "c")))
        assert address_of(site, "a") == "10.0.0.1" != address_of(site, "c")
        await site.until(lambda: pool_status(site).indexes.keys() == {"a", "c"})
        site.delete(claim_ref("a"))
        await site.until(lambda: claim_ref("a") not in known.objects)
        assert meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1") not in known.objects

    site.world.run(check())
