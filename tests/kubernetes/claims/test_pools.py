"""Metadata and status of pools."""

import datetime

import msgspec
import pytest
from tests.kubernetes.claims import server

from gantry.kubernetes.api import capi, ipam, meta
from gantry.kubernetes.claims import actions, reconcile_pool

POOL = ipam.pool_ref(server.SITE, "pool-1")
OWN = ("allocations", "addresses", "total", "used", "free", "waiting", "conditions")


def begin(api: server.Server, *names: str, **spec: object) -> server.Controller:
    api.create(server.pool("pool-1", **spec))
    for name in names:
        api.create(server.claim(name))
    controller = server.Controller(api)
    controller.settle()
    return controller


def status(api: server.Server) -> ipam.PoolStatus:
    seen = server.struct(api.get(POOL))
    assert isinstance(seen, ipam.IPPool)
    return seen.status


def condition(api: server.Server, name: str) -> meta.Condition:
    return next(condition for condition in status(api).conditions if condition.type == name)


@pytest.mark.promise("claims-24", "claims-25")
def test_the_status_maps_claims_to_addresses_in_both_spellings_and_to_the_objects() -> None:
    api = server.Server()
    begin(api, "a", "b", preAllocations={"b": "10.0.0.3", "later": "10.0.0.4"})
    seen = status(api)
    assert seen.indexes == {"a": "10.0.0.1", "b": "10.0.0.3"}
    assert seen.allocations == {"a": "10.0.0.1", "b": "10.0.0.3", "later": "10.0.0.4"}
    assert seen.addresses == {"a": "pool-1-10-0-0-1", "b": "pool-1-10-0-0-3"}


@pytest.mark.promise("claims-23")
def test_last_updated_moves_when_allocations_do_and_only_then() -> None:
    api = server.Server()
    controller = begin(api, "a")
    first = status(api).last_updated
    api.now += datetime.timedelta(hours=1)
    api.patch(POOL, {"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}})
    controller.settle()
    assert (status(api).last_updated, status(api).total) == (first, 9)
    api.create(server.claim("b"))
    controller.settle()
    assert status(api).last_updated == meta.stamp(api.now)


@pytest.mark.promise("claims-46")
def test_the_status_follows_address_objects_whoever_makes_them() -> None:
    api = server.Server()
    controller = begin(api)
    api.create(server.address("printer", "10.0.0.2", claim="printer"))
    controller.settle()
    assert (status(api).indexes, status(api).used, status(api).free) == ({"printer": "10.0.0.2"}, 1, 3)
    api.delete(meta.Ref(ipam.GROUP, "IPAddress", server.SITE, "printer"))
    controller.settle()
    assert (status(api).indexes, status(api).used, status(api).free) == ({}, 0, 4)


def test_counts_and_the_exhausted_condition_say_how_full_it_is() -> None:
    api = server.Server()
    controller = begin(api, *"abcdef", gateway="10.0.0.4", preAllocations={"z": "10.0.0.3"})
    seen = status(api)
    assert (seen.total, seen.used, seen.free, seen.waiting) == (3, 2, 0, 4)
    assert condition(api, "Exhausted").status == "True"
    since = condition(api, "Exhausted").last_transition_time
    api.now += datetime.timedelta(hours=1)
    for name in "cdefa":
        api.delete(meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name))
    controller.settle()
    assert (condition(api, "Exhausted").status, status(api).free) == ("False", 1)
    assert condition(api, "Exhausted").last_transition_time > since
    assert [report.reason for report in controller.reports if report.about == POOL] == [
        "NoFreeAddress",
        "HasFreeAddresses",
    ]


def test_the_counts_of_a_huge_pool_end_at_the_largest_integer() -> None:
    api = server.Server()
    begin(api, "a", pools=[{"subnet": "2001:db8::/64"}])
    assert (status(api).total, status(api).used) == (reconcile_pool.MAX_COUNT, 1)


@pytest.mark.promise("claims-15")
def test_a_pool_waits_for_its_cluster_and_then_belongs_to_it() -> None:
    api = server.Server()
    controller = begin(api, "a", clusterName="edge")
    assert server.error(api, "a") == "Cluster edge does not exist yet"
    assert condition(api, "Ready").reason == "ClusterNotFound"
    api.create(server.cluster("edge"))
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"
    marks = server.struct(api.get(POOL)).metadata
    assert marks.labels == {meta.CLUSTER_LABEL: "edge", meta.PROVIDER_LABEL: "ipam-metal3"}
    uid = server.struct(api.get(capi.cluster_ref(server.SITE, "edge"))).metadata.uid
    assert [(owner.kind, owner.name, owner.uid) for owner in marks.owner_references] == [("Cluster", "edge", uid)]


def test_other_owners_of_a_pool_are_kept() -> None:
    api = server.Server()
    begin(api, clusterName="edge")
    other = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "Metal3Cluster",
        "name": "edge",
        "uid": "1",
    }
    api.patch(POOL, {"metadata": {"ownerReferences": [other]}})
    api.create(server.cluster("edge"))
    server.Controller(api).settle()
    assert [owner.kind for owner in server.struct(api.get(POOL)).metadata.owner_references] == [
        "Metal3Cluster",
        "Cluster",
    ]


def test_fields_that_a_server_does_not_know_are_not_written_again_and_again() -> None:
    api = server.Server(pruned=OWN)
    controller = begin(api, "a")
    writes = api.writes
    api.patch(POOL, {"metadata": {"labels": {"x": "y"}}})
    controller.settle()
    assert api.writes == writes + 1


def test_a_status_that_would_be_too_large_says_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_pool, "MAX_MAP_BYTES", 80)
    api = server.Server()
    begin(api, *"abcd")
    seen = status(api)
    assert (len(seen.indexes), seen.allocations, seen.addresses) == (3, {}, {})
    assert "too many addresses" in condition(api, "Ready").message


def test_a_status_with_what_a_server_notes_of_its_fields_can_be_stored() -> None:
    api = server.Server()
    controller = begin(api)
    count = 8000
    for number in range(count):
        claim = f"workers-of-the-edge-cluster-of-site-a-{number:06d}"
        text = f"10.1.{number >> 8}.{number & 255}"
        controller.known.put(server.struct(server.address(f"by-hand-{number}", text, claim=claim)))
    seen = server.struct(api.get(POOL))
    assert isinstance(seen, ipam.IPPool)
    new_status = msgspec.to_builtins(reconcile_pool.status(controller.known, seen, old=seen.status, now=api.now))
    maps = [new_status.get(name, {}) for name in ("indexes", "allocations", "addresses")]
    noted = sum(len(f'"f:{name}":{{}},') for each in maps for name in each)
    assert len(maps[0]) == count
    assert len(msgspec.json.encode(new_status)) + noted < 1_500_000


def test_what_is_allocated_in_advance_leaves_less_room_for_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_pool, "MAX_MAP_BYTES", 150)
    api = server.Server()
    begin(api, *"abcd", preAllocations={name: f"10.0.0.{number}" for number, name in enumerate("abcd", 1)})
    assert (len(status(api).indexes), status(api).allocations, status(api).used) == (2, {}, 4)


def test_what_cluster_api_lets_through_and_is_no_address_is_left_out_of_the_status() -> None:
    api = server.Server()
    ref = {"name": "pool-1", "kind": "IPPool", "apiGroup": ipam.GROUP}
    spec = {"address": "::ffff:10.0.0.1", "prefix": 24, "claimRef": {"name": "x"}, "poolRef": ref}
    head = {"name": "mapped", "namespace": server.SITE}
    api.create({"apiVersion": f"{capi.GROUP}/v1beta2", "kind": "IPAddress", "metadata": head, "spec": spec})
    begin(api, "a")
    assert status(api).indexes == {"a": "10.0.0.1"}


def creating(api: server.Server) -> tuple[server.Controller, actions.Create]:
    """Return a controller that is about to create the first address of a pool, and that action."""
    api.create(server.pool("pool-1"))
    api.create(server.claim("a"))
    controller = server.Controller(api)
    for _ in controller.steps():
        if isinstance(controller.sending, actions.Create):
            return controller, controller.sending
    pytest.fail("no address is created")


def test_a_pool_has_its_finalizer_before_its_first_address() -> None:
    api = server.Server()
    creating(api)
    assert ipam.POOL_FINALIZER in server.struct(api.get(POOL)).metadata.finalizers


def test_a_pool_that_is_deleted_while_its_first_address_is_created_is_kept() -> None:
    api = server.Server()
    controller, _ = creating(api)
    api.delete(POOL)
    controller.see()
    steps = reconcile_pool.decide(controller.known, POOL, now=api.now).steps
    assert not [step for step in steps if isinstance(step, actions.Patch) and step.subresource != "status"]


def test_a_pool_that_is_deleted_after_a_creation_without_an_answer_is_kept() -> None:
    api = server.Server()
    controller, create = creating(api)
    api.create(create.address.to_json())
    api.delete(POOL)
    controller.known.put(server.struct(api.get(POOL)))
    controller.known.finish(create.claim)
    (step,) = reconcile_pool.decide(controller.known, POOL, now=api.now).steps
    assert isinstance(step, actions.Patch)
    assert step.absent == (create.address.ref,)
    other = server.Controller(api)
    other.settle()
    assert api.get(POOL)
    api.delete(create.claim)
    other.settle()
    assert POOL not in api.objects


def test_a_pool_in_use_is_not_removed_and_a_paused_one_is_left_alone() -> None:
    api = server.Server()
    controller = begin(api, "a")
    api.delete(POOL)
    controller.settle()
    assert condition(api, "Ready").reason == "Deleting"
    assert ipam.POOL_FINALIZER in server.struct(api.get(POOL)).metadata.finalizers
    api.patch(POOL, {"metadata": {"annotations": {meta.PAUSED: ""}}})
    controller.settle()
    writes = api.writes
    api.delete(meta.Ref(ipam.GROUP, "IPClaim", server.SITE, "a"))
    controller.settle()
    assert api.writes == writes + 1
