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


def bound(site: api.Site, *names: str, kind: str = "IPClaim") -> bool:
    return all(server.address_of_claim(site.api.known, name, kind=kind) for name in names)


def addresses(site: api.Site) -> list[str]:
    """Return all addresses, sorted."""
    known = site.api.known
    objects = [server.struct(body) for ref, body in known.objects.items() if ref.kind == "IPAddress"]
    return sorted(each.spec.address for each in objects if isinstance(each, ipam.IPAddress | capi.IPAddress))


def claim_ref(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def pool_status(site: api.Site) -> ipam.PoolStatus:
    pool = server.struct(site.api.known.get(ipam.pool_ref(server.SITE, "pool-1")))
    assert isinstance(pool, ipam.IPPool)
    return pool.status


def test_a_claim_is_bound_to_an_address_of_its_pool(site: api.Site) -> None:
    async def check() -> None:
        site.start()
        site.put(server.pool(), server.claim("one"))
        await site.until(lambda: bound(site, "one"))
        await site.until(lambda: site.api.event_reasons("one") == ["Allocated"])
        await site.until(lambda: pool_status(site).indexes == {"one": "10.0.0.1"})

    site.world.run(check())


def test_a_claim_of_cluster_api_is_bound(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.capi_claim("one"), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one") and bound(site, "one", kind="IPAddressClaim"))
        assert addresses(site) == ["10.0.0.1", "10.0.0.2"]

    site.world.run(check())


def test_controllers_work_without_the_kinds_of_cluster_api(site: api.Site) -> None:
    async def check() -> None:
        site.api.missing = (capi.GROUP, capi.CLUSTER_GROUP)
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one"))

    site.world.run(check())


def test_controllers_begin_when_the_definitions_are_installed(site: api.Site) -> None:
    async def check() -> None:
        site.api.missing = (ipam.GROUP,)
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.world.clock.sleep(100)
        assert not site.made["c1"].is_ready
        site.api.missing = ()
        await site.until(lambda: bound(site, "one"))

    site.world.run(check())


def test_claims_beyond_the_pool_wait_with_the_reason_and_are_served_when_others_go(site: api.Site) -> None:
    async def check() -> None:
        names = [f"c{number}" for number in range(6)]
        site.put(server.pool(), *(server.claim(name) for name in names))
        site.start()
        await site.until(lambda: len(addresses(site)) == 4 and pool_status(site).waiting == 2)
        waiting = [name for name in names if not bound(site, name)]
        await site.until(lambda: all("Exhausted" in server.error(site.api.known, name) for name in waiting))
        writes = site.api.known.writes
        await site.world.clock.sleep(60)
        assert site.api.known.writes == writes
        for name in set(names) - set(waiting):
            site.delete(claim_ref(name))
        assert await site.until(lambda: bound(site, *waiting)) < 5
        await site.until(lambda: len(addresses(site)) == 2)

    site.world.run(check())


def test_a_deleted_claim_leaves_nothing(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one"))
        site.delete(claim_ref("one"))
        site.delete(ipam.pool_ref(server.SITE, "pool-1"))
        await site.until(lambda: not site.api.known.objects)

    site.world.run(check())


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_a_pool_deleted_right_after_its_first_address_is_kept_with_it(site: api.Site, delay: float) -> None:
    async def check() -> None:
        site.start()
        await site.until(lambda: site.made["c1"].is_ready)
        site.put(server.pool(), server.claim("a"))
        await site.until(lambda: bool(addresses(site)))
        await site.world.clock.sleep(delay)
        site.delete(ipam.pool_ref(server.SITE, "pool-1"))
        await site.world.clock.sleep(60)
        assert ipam.pool_ref(server.SITE, "pool-1") in site.api.known.objects
        assert addresses(site) == [server.address_of_claim(site.api.known, "a")] == ["10.0.0.1"]
        site.delete(claim_ref("a"))
        await site.until(lambda: ipam.pool_ref(server.SITE, "pool-1") not in site.api.known.objects)

    site.world.run(check())


def test_the_items_of_a_list_need_not_say_their_kind(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.claim("one"))

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            if request.method != "GET" or "watch=" in request.path or "/ippools?" not in request.path:
                return None
            listed = [body for ref, body in site.api.known.objects.items() if ref.kind == "IPPool"]
            plain = [{key: body[key] for key in ("metadata", "spec")} for body in listed]
            return api.answered(200, {"metadata": {"resourceVersion": "2"}, "items": plain})

        site.api.fault = fault
        site.start()
        await site.until(lambda: bound(site, "one"))

    site.world.run(check())


def test_a_list_in_pages_is_read_whole(site: api.Site) -> None:
    async def check() -> None:
        site.api.page = 2
        site.put(server.pool(), *(server.claim(f"c{number}") for number in range(4)))
        site.start()
        await site.until(lambda: len(addresses(site)) == 4)

    site.world.run(check())


def test_watches_that_are_cut_are_resumed_without_a_list(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool())
        site.start()
        for number in range(4):
            await site.world.clock.sleep(5)
            site.api.cut()
            site.put(server.claim(f"c{number}"))
            await site.until(lambda: bound(site, *(f"c{index}" for index in range(number + 1))))  # noqa: B023
        assert 'gantry_kube_lists_total{kind="ipclaims.ipam.metal3.io"} 1.0\n' in site.metrics("c1")

    site.world.run(check())


def test_what_went_while_versions_were_forgotten_is_noticed(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one"))
        site.world.network.partition("c1", "api")
        site.api.cut()
        gone = meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "pool-1-10-0-0-1")
        for ref in (gone, claim_ref("one")):
            site.api.known.patch(ref, {"metadata": {"finalizers": None}})
            site.delete(ref)
        site.put(server.claim("two"))
        site.api.forgotten = len(site.api.known.events)
        site.world.network.heal("c1", "api")
        await site.until(lambda: bound(site, "two"), limit=300)

    site.world.run(check())


def test_a_silent_watch_is_restarted(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool())
        site.start()
        await site.until(lambda: site.made["c1"].is_ready)
        site.world.network.partition("api", "c1")
        site.put(server.claim("one"))
        await site.world.clock.sleep(50)
        site.world.network.heal("api", "c1")
        await site.until(lambda: bound(site, "one"), limit=300)

    site.world.run(check())


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
    async def check(site: api.Site) -> None:
        await site.open()
        source = random.Random(seed)
        site.api.fault = _sometimes(source, 0.3)
        site.world.network.reset = 0.05
        site.world.network.drop = 0.02
        names = [f"c{number}" for number in range(4)]
        site.put(server.pool(), *(server.claim(name) for name in names[:2]))
        site.start()
        for _ in range(20):
            await site.world.clock.sleep(source.uniform(0, 3))
            site.api.cut()
            if source.random() < 0.3:
                site.api.forgotten = len(site.api.known.events)
        site.put(*(server.claim(name) for name in names[2:]))
        await site.until(lambda: bound(site, *names), limit=3600)
        assert addresses(site) == [f"10.0.0.{number}" for number in range(1, 5)]
        for name in names:
            site.delete(claim_ref(name))
        await site.until(lambda: not addresses(site), limit=3600)

    with simulated.World(seed=seed) as world:
        world.run(check(api.Site(world)))


@pytest.mark.parametrize("survives", [True, False], ids=["written", "lost"])
def test_a_controller_that_is_killed_at_any_write_is_taken_over_from(survives: bool) -> None:
    async def check(site: api.Site, number: int) -> bool:
        """Kill the first controller at a write; return whether that happened."""
        await site.open()
        remaining = number

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            nonlocal remaining
            if request.method == "GET" or "/events" in request.path or remaining < 0:
                return None
            remaining -= 1
            if remaining >= 0:
                return None
            site.world.loop.call_later(5, site.start, "c2")
            if survives:
                site.world.loop.call_soon(site.world.kill, "c1")
                return None
            site.world.kill("c1")
            return api.refused(500, "InternalError")

        site.api.fault = fault
        site.put(server.pool(), server.claim("one"), server.capi_claim("two"))
        site.start()
        await site.until(lambda: bound(site, "one") and bound(site, "two", kind="IPAddressClaim"))
        assert addresses(site) == ["10.0.0.1", "10.0.0.2"]
        site.delete(claim_ref("one"))
        await site.until(lambda: claim_ref("one") not in site.api.known.objects)
        assert addresses(site) == [server.address_of_claim(site.api.known, "two", kind="IPAddressClaim")]
        return remaining < 0

    for number in range(100):
        with simulated.World(seed=number) as world:
            if not world.run(check(api.Site(world), number)):
                break
    assert number > 8


def test_of_two_controllers_one_works_and_the_other_takes_over_within_15_seconds(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.claim("one"))
        for name in ("c1", "c2"):
            site.start(name, elects=True)
        await site.until(lambda: bound(site, "one"))
        await site.world.clock.sleep(30)
        leading = [name for name in ("c1", "c2") if site.leads(name)]
        assert len(leading) == 1
        site.world.kill(leading[0])
        site.put(server.claim("two"))
        assert await site.until(lambda: bound(site, "two")) < 15

    site.world.run(check())


def test_a_controller_that_cannot_renew_its_lease_stops_before_another_begins(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool())
        site.start("c1", elects=True)
        await site.until(lambda: site.leads("c1"))
        site.start("c2", elects=True)
        await site.world.clock.sleep(10)
        site.world.network.partition("c1", "api")
        while not site.leads("c2"):
            await site.world.clock.sleep(0.05)
        assert not site.leads("c1")
        site.world.network.heal("c1", "api")
        await site.world.clock.sleep(30)
        leading = [name for name in ("c1", "c2") if site.leads(name)]
        assert leading == ["c2"]

    site.world.run(check())


def test_a_watch_filter_leaves_the_claims_of_others_alone_and_honours_their_addresses(site: api.Site) -> None:
    async def check() -> None:
        ours = {"labels": {meta.WATCH_LABEL: "a"}}
        pool = server.pool()
        pool["metadata"] = {**server.metadata(pool), **ours}
        mine = server.claim("mine")
        mine["metadata"] = {**server.metadata(mine), **ours}
        site.put(pool, server.address("other", "10.0.0.1", claim="theirs"), server.claim("theirs"), mine)
        site.start(watch_filter="a")
        await site.until(lambda: bound(site, "mine"))
        await site.world.clock.sleep(30)
        assert not bound(site, "theirs")
        assert addresses(site) == ["10.0.0.1", "10.0.0.2"]

    site.world.run(check())


def test_an_address_stays_with_a_claim_outside_the_watch_filter(site: api.Site) -> None:
    async def check() -> None:
        pool = server.pool()
        pool["metadata"] = {**server.metadata(pool), "labels": {meta.WATCH_LABEL: "a"}}
        site.put(pool, server.claim("theirs"))
        site.start("unfiltered")
        await site.until(lambda: bound(site, "theirs"))
        site.world.kill("unfiltered")
        site.start("c1", watch_filter="a")
        # The claim is not listed: its address is an orphan for all that these controllers can see.
        await site.world.clock.sleep(2 * reconcile_claim.GRACE_SECONDS)
        assert any(method == "GET" and path.endswith("/ipclaims/theirs") for method, path in site.api.requests)
        assert addresses(site) == ["10.0.0.1"]

    site.world.run(check())


def test_an_address_that_the_server_refuses_is_reported_to_the_claim_and_tried_again(site: api.Site) -> None:
    async def check() -> None:
        def fault(request: http_interface.Request) -> http_interface.Response | None:
            creates = request.method == "POST" and request.path.endswith("/ipaddresses")
            return api.refused(403, "Forbidden") if creates else None

        site.api.fault = fault
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.until(lambda: "said Forbidden" in server.error(site.api.known, "one"))
        await site.world.clock.sleep(60)
        posts = [path for method, path in site.api.requests if method == "POST" and path.endswith("/ipaddresses")]
        assert len(posts) < 20
        site.api.fault = None
        await site.until(lambda: bound(site, "one") and not server.error(site.api.known, "one"))

    site.world.run(check())


@pytest.mark.promise("claims-43")
def test_a_conflict_is_logged_and_the_claim_gets_another_address(
    site: api.Site, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        def fault(request: http_interface.Request) -> http_interface.Response | None:
            if request.method == "POST" and request.path.endswith("/ipaddresses") and not addresses(site):
                site.put(server.address("pool-1-10-0-0-1", "10.0.0.1", claim="other"))
            return None

        site.api.fault = fault
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one"))
        assert server.address_of_claim(site.api.known, "one") == "10.0.0.2"

    with caplog.at_level("INFO"):
        site.world.run(check())
    assert any("pool-1-10-0-0-1" in line and "already exists" in line for line in caplog.messages)


@pytest.mark.promise("claims-48")
def test_claims_and_pools_are_cared_for_apart(site: api.Site) -> None:
    async def check() -> None:
        refused = "/ippools/pool-1/status"

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            fails = request.method == "PATCH" and refused in request.path
            return api.refused(500, "InternalError") if fails else None

        site.api.fault = fault
        site.put(server.pool(), server.claim("one"))
        site.start()
        await site.until(lambda: bound(site, "one"))
        assert not pool_status(site).indexes
        refused = "/ipclaims/"
        site.put(server.claim("two"))
        await site.until(lambda: pool_status(site).waiting == 1 and pool_status(site).indexes == {"one": "10.0.0.1"})
        assert not bound(site, "two")

    site.world.run(check())


@pytest.mark.promise("claims-27")
def test_a_pool_belongs_to_its_cluster_as_soon_as_there_is_one(site: api.Site) -> None:
    async def check() -> None:
        def owners() -> list[str]:
            listed = server.struct(site.api.known.get(ipam.pool_ref(server.SITE, "pool-1"))).metadata.owner_references
            return [f"{reference.kind}/{reference.name}/{reference.uid}" for reference in listed]

        site.put(server.pool(clusterName="edge"), server.claim("one"))
        site.start()
        await site.world.clock.sleep(20)
        assert (owners(), addresses(site)) == ([], [])
        site.put(server.cluster("edge"))
        uid = server.struct(site.api.known.get(capi.cluster_ref(server.SITE, "edge"))).metadata.uid
        await site.until(lambda: bound(site, "one") and owners() == [f"Cluster/edge/{uid}"])

    site.world.run(check())


@pytest.mark.promise("claims-27")
@pytest.mark.parametrize("last", ["Cluster", "Metal3Cluster"])
def test_a_pool_belongs_to_the_metal3_cluster_that_builds_its_cluster_too(site: api.Site, last: str) -> None:
    bodies = {"Cluster": server.cluster("edge", built_by="metal"), "Metal3Cluster": server.metal3_cluster("metal")}
    pools = {"edge-pool": "edge", "rack-pool": "rack"}

    def owners(pool: str) -> set[tuple[str, str, str]]:
        listed = server.struct(site.api.known.get(ipam.pool_ref(server.SITE, pool))).metadata.owner_references
        return {(reference.kind, reference.name, reference.uid) for reference in listed}

    def uid(kind: str, name: str) -> str:
        group = capi.CLUSTER_GROUP if kind == "Cluster" else data.GROUP
        return server.struct(site.api.known.get(meta.Ref(group, kind, server.SITE, name))).metadata.uid

    async def check() -> None:
        site.put(*(server.pool(name, clusterName=cluster) for name, cluster in pools.items()))
        site.put(server.cluster("rack", built_by="metal", kind="OtherCluster"))
        site.put(*(body for kind, body in bodies.items() if kind != last))
        site.start()
        await site.world.clock.sleep(20)
        site.put(bodies[last])
        await site.until(
            lambda: (
                owners("edge-pool")
                == {
                    ("Cluster", "edge", uid("Cluster", "edge")),
                    ("Metal3Cluster", "metal", uid("Metal3Cluster", "metal")),
                }
            )
        )
        await site.until(lambda: owners("rack-pool") == {("Cluster", "rack", uid("Cluster", "rack"))})

    site.world.run(check())


def test_an_address_whose_claim_is_gone_goes_after_a_while_though_the_lead_was_lost_meanwhile(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(), server.claim("one"))
        site.start("c1", elects=True)
        await site.until(lambda: bound(site, "one"))
        site.api.known.now = datetime.datetime.fromtimestamp(site.world.clock.now(), datetime.UTC)
        orphan = server.address("pool-1-10-0-0-3", "10.0.0.3", claim="gone")
        owner = {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "name": "gone", "uid": "old"}
        marks = {"finalizers": [ipam.ADDRESS_FINALIZER], "ownerReferences": [owner]}
        site.put({**orphan, "metadata": {**server.metadata(orphan), **marks}})
        await site.world.clock.sleep(20)
        site.world.network.partition("c1", "api")
        await site.world.clock.sleep(20)
        assert not site.leads("c1")
        site.world.network.heal("c1", "api")
        await site.until(lambda: site.leads("c1"))
        assert len(addresses(site)) == 2
        await site.until(lambda: addresses(site) == ["10.0.0.1"], limit=900)

    site.world.run(check())


def test_the_status_of_a_pool_is_written_for_many_claims_at_once(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(pools=[{"subnet": "10.0.0.0/24"}]))
        site.start()
        began = site.world.clock.monotonic()
        for number in range(100):
            site.put(server.claim(f"c{number}"))
            await site.world.clock.sleep(0.1)
        await site.until(lambda: pool_status(site).used == 100)
        seconds = site.world.clock.monotonic() - began
        pool = "ippools/pool-1/status"
        written = [path for method, path in site.api.requests if method == "PATCH" and path.endswith(pool)]
        assert len(written) <= seconds + 2

    site.world.run(check())


def test_events_of_thousands_of_claims_do_not_keep_these_waiting(site: api.Site) -> None:
    async def check() -> None:
        site.put(server.pool(pools=[{"subnet": "10.0.0.0/23"}]), *(server.claim(f"c{number}") for number in range(300)))
        began = site.world.clock.monotonic()
        site.start()
        await site.until(lambda: bound(site, *(f"c{number}" for number in range(300))))
        seconds = site.world.clock.monotonic() - began
        written = [path for method, path in site.api.requests if method == "POST" and path.endswith("/events")]
        assert len(written) <= events.BURST + 1 + seconds * events.PER_SECOND < 300

    site.world.run(check())
