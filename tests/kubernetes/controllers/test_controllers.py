"""The controllers with an API server over HTTP, on a simulated clock and network."""

import datetime
import random
from collections.abc import Callable

import pytest
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api

from gantry.kubernetes.api import capi, data, ipam, meta
from gantry.kubernetes.claims import reconcile_claim
from gantry.kubernetes.controllers import events
from gantry.runtime import http_interface, simulated


def bound(kube: api.SimulatedKubernetes, *names: str, kind: str = "IPClaim") -> bool:
    return all(server.address_of_claim(kube.api.known, name, kind=kind) for name in names)


def addresses(kube: api.SimulatedKubernetes) -> list[str]:
    """Return all addresses, sorted."""
    known = kube.api.known
    objects = [server.struct(body) for ref, body in known.objects.items() if ref.kind == "IPAddress"]
    return sorted(each.spec.address for each in objects if isinstance(each, ipam.IPAddress | capi.IPAddress))


def claim_ref(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def pool_status(kube: api.SimulatedKubernetes) -> ipam.PoolStatus:
    pool = server.struct(kube.api.known.get(ipam.pool_ref(server.SITE, "pool-1")))
    assert isinstance(pool, ipam.IPPool)
    return pool.status


def test_a_claim_is_bound_to_an_address_of_its_pool(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.start()
        kube.put(server.pool(), server.claim("one"))
        await kube.until(lambda: bound(kube, "one"))
        await kube.until(lambda: kube.api.event_reasons("one") == ["Allocated"])
        await kube.until(lambda: pool_status(kube).indexes == {"one": "10.0.0.1"})

    kube.world.run(check())


def test_a_claim_of_cluster_api_is_bound(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.capi_claim("one"), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one") and bound(kube, "one", kind="IPAddressClaim"))
        assert addresses(kube) == ["10.0.0.1", "10.0.0.2"]

    kube.world.run(check())


def test_controllers_work_without_the_kinds_of_cluster_api(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.api.missing = (capi.GROUP, capi.CLUSTER_GROUP)
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one"))

    kube.world.run(check())


def test_controllers_begin_when_the_definitions_are_installed(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.api.missing = (ipam.GROUP,)
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.world.clock.sleep(100)
        assert not kube.made["c1"].is_ready
        kube.api.missing = ()
        await kube.until(lambda: bound(kube, "one"))

    kube.world.run(check())


def test_claims_beyond_the_pool_wait_with_the_reason_and_are_served_when_others_go(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        names = [f"c{number}" for number in range(6)]
        kube.put(server.pool(), *(server.claim(name) for name in names))
        kube.start()
        await kube.until(lambda: len(addresses(kube)) == 4 and pool_status(kube).waiting == 2)
        waiting = [name for name in names if not bound(kube, name)]
        await kube.until(lambda: all("Exhausted" in server.error(kube.api.known, name) for name in waiting))
        writes = kube.api.known.writes
        await kube.world.clock.sleep(60)
        assert kube.api.known.writes == writes
        for name in set(names) - set(waiting):
            kube.delete(claim_ref(name))
        assert await kube.until(lambda: bound(kube, *waiting)) < 5
        await kube.until(lambda: len(addresses(kube)) == 2)

    kube.world.run(check())


def test_a_deleted_claim_leaves_nothing(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one"))
        kube.delete(claim_ref("one"))
        kube.delete(ipam.pool_ref(server.SITE, "pool-1"))
        await kube.until(lambda: not kube.api.known.objects)

    kube.world.run(check())


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_a_pool_deleted_right_after_its_first_address_is_kept_with_it(
    kube: api.SimulatedKubernetes, delay: float
) -> None:
    async def check() -> None:
        kube.start()
        await kube.until(lambda: kube.made["c1"].is_ready)
        kube.put(server.pool(), server.claim("a"))
        await kube.until(lambda: bool(addresses(kube)))
        await kube.world.clock.sleep(delay)
        kube.delete(ipam.pool_ref(server.SITE, "pool-1"))
        await kube.world.clock.sleep(60)
        assert ipam.pool_ref(server.SITE, "pool-1") in kube.api.known.objects
        assert addresses(kube) == [server.address_of_claim(kube.api.known, "a")] == ["10.0.0.1"]
        kube.delete(claim_ref("a"))
        await kube.until(lambda: ipam.pool_ref(server.SITE, "pool-1") not in kube.api.known.objects)

    kube.world.run(check())


def test_the_items_of_a_list_need_not_say_their_kind(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.claim("one"))

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            if request.method != "GET" or "watch=" in request.path or "/ippools?" not in request.path:
                return None
            listed = [body for ref, body in kube.api.known.objects.items() if ref.kind == "IPPool"]
            plain = [{key: body[key] for key in ("metadata", "spec")} for body in listed]
            return api.answered(200, {"metadata": {"resourceVersion": "2"}, "items": plain})

        kube.api.fault = fault
        kube.start()
        await kube.until(lambda: bound(kube, "one"))

    kube.world.run(check())


def test_a_list_in_pages_is_read_whole(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.api.page = 2
        kube.put(server.pool(), *(server.claim(f"c{number}") for number in range(4)))
        kube.start()
        await kube.until(lambda: len(addresses(kube)) == 4)

    kube.world.run(check())


def test_watches_that_are_cut_are_resumed_without_a_list(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool())
        kube.start()
        for number in range(4):
            await kube.world.clock.sleep(5)
            kube.api.cut()
            kube.put(server.claim(f"c{number}"))
            await kube.until(lambda: bound(kube, *(f"c{index}" for index in range(number + 1))))  # noqa: B023
        assert 'gantry_kube_lists_total{kind="ipclaims.ipam.metal3.io"} 1.0\n' in kube.metrics("c1")

    kube.world.run(check())


def test_what_went_while_versions_were_forgotten_is_noticed(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one"))
        kube.world.network.partition("c1", "api")
        kube.api.cut()
        gone = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1")
        for ref in (gone, claim_ref("one")):
            kube.api.known.patch(ref, {"metadata": {"finalizers": None}})
            kube.delete(ref)
        kube.put(server.claim("two"))
        kube.api.forgotten = len(kube.api.known.events)
        kube.world.network.heal("c1", "api")
        await kube.until(lambda: bound(kube, "two"), limit=300)

    kube.world.run(check())


def test_a_silent_watch_is_restarted(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool())
        kube.start()
        await kube.until(lambda: kube.made["c1"].is_ready)
        kube.world.network.partition("api", "c1")
        kube.put(server.claim("one"))
        await kube.world.clock.sleep(50)
        kube.world.network.heal("api", "c1")
        await kube.until(lambda: bound(kube, "one"), limit=300)

    kube.world.run(check())


def _sometimes(source: random.Random, share: float) -> api.Fault:
    """Answer some of the requests with errors of an overloaded server."""
    answers: list[Callable[[], http_interface.Response]] = [
        lambda: api.refused(409, "Conflict"),
        lambda: api.refused(429, "TooManyRequests", **{"Retry-After": "1"}),
        lambda: api.refused(500, "InternalError"),
        lambda: http_interface.Response(502, b"<html>", "text/html"),
        lambda: http_interface.Response(200, b"no json"),
    ]

    def fault(request: http_interface.Request) -> http_interface.Response | None:
        return source.choice(answers)() if source.random() < share else None

    return fault


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_given_twice_and_all_are_served_in_a_bad_hour(seed: int) -> None:
    async def check(kube: api.SimulatedKubernetes) -> None:
        await kube.open()
        source = random.Random(seed)
        kube.api.fault = _sometimes(source, 0.3)
        kube.world.network.reset = 0.05
        kube.world.network.drop = 0.02
        names = [f"c{number}" for number in range(4)]
        kube.put(server.pool(), *(server.claim(name) for name in names[:2]))
        kube.start()
        for _ in range(20):
            await kube.world.clock.sleep(source.uniform(0, 3))
            kube.api.cut()
            if source.random() < 0.3:
                kube.api.forgotten = len(kube.api.known.events)
        kube.put(*(server.claim(name) for name in names[2:]))
        await kube.until(lambda: bound(kube, *names), limit=3600)
        assert addresses(kube) == [f"10.0.0.{number}" for number in range(1, 5)]
        for name in names:
            kube.delete(claim_ref(name))
        await kube.until(lambda: not addresses(kube), limit=3600)

    with simulated.World(seed=seed) as world:
        world.run(check(api.SimulatedKubernetes(world)))


@pytest.mark.parametrize("survives", [True, False], ids=["written", "lost"])
def test_a_controller_that_is_killed_at_any_write_is_taken_over_from(survives: bool) -> None:
    async def check(kube: api.SimulatedKubernetes, number: int) -> bool:
        """Kill the first controller at a write; return whether that happened."""
        await kube.open()
        remaining = number

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            nonlocal remaining
            if request.method == "GET" or "/events" in request.path or remaining < 0:
                return None
            remaining -= 1
            if remaining >= 0:
                return None
            kube.world.loop.call_later(5, kube.start, "c2")
            if survives:
                kube.world.loop.call_soon(kube.world.kill, "c1")
                return None
            kube.world.kill("c1")
            return api.refused(500, "InternalError")

        kube.api.fault = fault
        kube.put(server.pool(), server.claim("one"), server.capi_claim("two"))
        kube.start()
        await kube.until(lambda: bound(kube, "one") and bound(kube, "two", kind="IPAddressClaim"))
        assert addresses(kube) == ["10.0.0.1", "10.0.0.2"]
        kube.delete(claim_ref("one"))
        await kube.until(lambda: claim_ref("one") not in kube.api.known.objects)
        assert addresses(kube) == [server.address_of_claim(kube.api.known, "two", kind="IPAddressClaim")]
        return remaining < 0

    for number in range(100):
        with simulated.World(seed=number) as world:
            if not world.run(check(api.SimulatedKubernetes(world), number)):
                break
    assert number > 8


def test_of_two_controllers_one_works_and_the_other_takes_over_within_15_seconds(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.claim("one"))
        for name in ("c1", "c2"):
            kube.start(name, elects=True)
        await kube.until(lambda: bound(kube, "one"))
        await kube.world.clock.sleep(30)
        leading = [name for name in ("c1", "c2") if kube.leads(name)]
        assert len(leading) == 1
        kube.world.kill(leading[0])
        kube.put(server.claim("two"))
        assert await kube.until(lambda: bound(kube, "two")) < 15

    kube.world.run(check())


def test_a_controller_that_cannot_renew_its_lease_stops_before_another_begins(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool())
        kube.start("c1", elects=True)
        await kube.until(lambda: kube.leads("c1"))
        kube.start("c2", elects=True)
        await kube.world.clock.sleep(10)
        kube.world.network.partition("c1", "api")
        while not kube.leads("c2"):
            await kube.world.clock.sleep(0.05)
        assert not kube.leads("c1")
        kube.world.network.heal("c1", "api")
        await kube.world.clock.sleep(30)
        leading = [name for name in ("c1", "c2") if kube.leads(name)]
        assert leading == ["c2"]

    kube.world.run(check())


def test_a_watch_filter_leaves_the_claims_of_others_alone_and_honours_their_addresses(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        ours = {"labels": {meta.WATCH_LABEL: "a"}}
        pool = server.pool()
        pool["metadata"] = {**server.metadata(pool), **ours}
        mine = server.claim("mine")
        mine["metadata"] = {**server.metadata(mine), **ours}
        kube.put(pool, server.address("other", "10.0.0.1", claim="theirs"), server.claim("theirs"), mine)
        kube.start(watch_filter="a")
        await kube.until(lambda: bound(kube, "mine"))
        await kube.world.clock.sleep(30)
        assert not bound(kube, "theirs")
        assert addresses(kube) == ["10.0.0.1", "10.0.0.2"]

    kube.world.run(check())


def test_an_address_stays_with_a_claim_outside_the_watch_filter(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        pool = server.pool()
        pool["metadata"] = {**server.metadata(pool), "labels": {meta.WATCH_LABEL: "a"}}
        kube.put(pool, server.claim("theirs"))
        kube.start("unfiltered")
        await kube.until(lambda: bound(kube, "theirs"))
        kube.world.kill("unfiltered")
        kube.start("c1", watch_filter="a")
        # The claim is not listed: its address is an orphan for all that these controllers can see.
        await kube.world.clock.sleep(2 * reconcile_claim.GRACE_SECONDS)
        assert any(method == "GET" and path.endswith("/ipclaims/theirs") for method, path in kube.api.requests)
        assert addresses(kube) == ["10.0.0.1"]

    kube.world.run(check())


def test_an_address_that_the_server_refuses_is_reported_to_the_claim_and_tried_again(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        def fault(request: http_interface.Request) -> http_interface.Response | None:
            creates = request.method == "POST" and request.path.endswith("/ipaddresses")
            return api.refused(403, "Forbidden") if creates else None

        kube.api.fault = fault
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.until(lambda: "said Forbidden" in server.error(kube.api.known, "one"))
        await kube.world.clock.sleep(60)
        posts = [path for method, path in kube.api.requests if method == "POST" and path.endswith("/ipaddresses")]
        assert len(posts) < 20
        kube.api.fault = None
        await kube.until(lambda: bound(kube, "one") and not server.error(kube.api.known, "one"))

    kube.world.run(check())


@pytest.mark.promise("claims-43")
def test_a_conflict_is_logged_and_the_claim_gets_another_address(
    kube: api.SimulatedKubernetes, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        def fault(request: http_interface.Request) -> http_interface.Response | None:
            if request.method == "POST" and request.path.endswith("/ipaddresses") and not addresses(kube):
                kube.put(server.address("pool-1-10-0-0-1", "10.0.0.1", claim="other"))
            return None

        kube.api.fault = fault
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one"))
        assert server.address_of_claim(kube.api.known, "one") == "10.0.0.2"

    with caplog.at_level("INFO"):
        kube.world.run(check())
    assert any("pool-1-10-0-0-1" in line and "already exists" in line for line in caplog.messages)


@pytest.mark.promise("claims-48")
def test_claims_and_pools_are_cared_for_apart(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        refused = "/ippools/pool-1/status"

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            fails = request.method == "PATCH" and refused in request.path
            return api.refused(500, "InternalError") if fails else None

        kube.api.fault = fault
        kube.put(server.pool(), server.claim("one"))
        kube.start()
        await kube.until(lambda: bound(kube, "one"))
        assert not pool_status(kube).indexes
        refused = "/ipclaims/"
        kube.put(server.claim("two"))
        await kube.until(lambda: pool_status(kube).waiting == 1 and pool_status(kube).indexes == {"one": "10.0.0.1"})
        assert not bound(kube, "two")

    kube.world.run(check())


@pytest.mark.promise("claims-27")
def test_a_pool_belongs_to_its_cluster_as_soon_as_there_is_one(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        def owners() -> list[str]:
            listed = server.struct(kube.api.known.get(ipam.pool_ref(server.SITE, "pool-1"))).metadata.owner_references
            return [f"{reference.kind}/{reference.name}/{reference.uid}" for reference in listed]

        kube.put(server.pool(clusterName="edge"), server.claim("one"))
        kube.start()
        await kube.world.clock.sleep(20)
        assert (owners(), addresses(kube)) == ([], [])
        kube.put(server.cluster("edge"))
        uid = server.struct(kube.api.known.get(capi.cluster_ref(server.SITE, "edge"))).metadata.uid
        await kube.until(lambda: bound(kube, "one") and owners() == [f"Cluster/edge/{uid}"])

    kube.world.run(check())


@pytest.mark.promise("claims-27")
@pytest.mark.parametrize("last", ["Cluster", "Metal3Cluster"])
def test_a_pool_belongs_to_the_metal3_cluster_that_builds_its_cluster_too(
    kube: api.SimulatedKubernetes, last: str
) -> None:
    bodies = {"Cluster": server.cluster("edge", built_by="metal"), "Metal3Cluster": server.metal3_cluster("metal")}
    pools = {"edge-pool": "edge", "rack-pool": "rack"}

    def owners(pool: str) -> set[tuple[str, str, str]]:
        listed = server.struct(kube.api.known.get(ipam.pool_ref(server.SITE, pool))).metadata.owner_references
        return {(reference.kind, reference.name, reference.uid) for reference in listed}

    def uid(kind: str, name: str) -> str:
        group = capi.CLUSTER_GROUP if kind == "Cluster" else data.GROUP
        return server.struct(kube.api.known.get(meta.Ref(group, kind, server.SITE, name))).metadata.uid

    async def check() -> None:
        kube.put(*(server.pool(name, clusterName=cluster) for name, cluster in pools.items()))
        kube.put(server.cluster("rack", built_by="metal", kind="OtherCluster"))
        kube.put(*(body for kind, body in bodies.items() if kind != last))
        kube.start()
        await kube.world.clock.sleep(20)
        kube.put(bodies[last])
        await kube.until(
            lambda: (
                owners("edge-pool")
                == {
                    ("Cluster", "edge", uid("Cluster", "edge")),
                    ("Metal3Cluster", "metal", uid("Metal3Cluster", "metal")),
                }
            )
        )
        await kube.until(lambda: owners("rack-pool") == {("Cluster", "rack", uid("Cluster", "rack"))})

    kube.world.run(check())


def test_an_address_whose_claim_is_gone_goes_after_a_while_though_the_lead_was_lost_meanwhile(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        kube.put(server.pool(), server.claim("one"))
        kube.start("c1", elects=True)
        await kube.until(lambda: bound(kube, "one"))
        kube.api.known.now = datetime.datetime.fromtimestamp(kube.world.clock.now(), datetime.UTC)
        orphan = server.address("pool-1-10-0-0-3", "10.0.0.3", claim="gone")
        owner = {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "name": "gone", "uid": "old"}
        marks = {"finalizers": [ipam.ADDRESS_FINALIZER], "ownerReferences": [owner]}
        kube.put({**orphan, "metadata": {**server.metadata(orphan), **marks}})
        await kube.world.clock.sleep(20)
        kube.world.network.partition("c1", "api")
        await kube.world.clock.sleep(20)
        assert not kube.leads("c1")
        kube.world.network.heal("c1", "api")
        await kube.until(lambda: kube.leads("c1"))
        assert len(addresses(kube)) == 2
        await kube.until(lambda: addresses(kube) == ["10.0.0.1"], limit=900)

    kube.world.run(check())


def test_the_status_of_a_pool_is_written_for_many_claims_at_once(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(pools=[{"subnet": "10.0.0.0/24"}]))
        kube.start()
        began = kube.world.clock.monotonic()
        for number in range(100):
            kube.put(server.claim(f"c{number}"))
            await kube.world.clock.sleep(0.1)
        await kube.until(lambda: pool_status(kube).used == 100)
        seconds = kube.world.clock.monotonic() - began
        pool = "ippools/pool-1/status"
        written = [path for method, path in kube.api.requests if method == "PATCH" and path.endswith(pool)]
        assert len(written) <= seconds + 2

    kube.world.run(check())


def test_events_of_thousands_of_claims_do_not_keep_these_waiting(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(pools=[{"subnet": "10.0.0.0/23"}]), *(server.claim(f"c{number}") for number in range(300)))
        began = kube.world.clock.monotonic()
        kube.start()
        await kube.until(lambda: bound(kube, *(f"c{number}" for number in range(300))))
        seconds = kube.world.clock.monotonic() - began
        written = [path for method, path in kube.api.requests if method == "POST" and path.endswith("/events")]
        assert len(written) <= events.BURST + 1 + seconds * events.PER_SECOND < 300

    kube.world.run(check())
