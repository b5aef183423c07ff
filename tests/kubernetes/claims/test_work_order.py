"""The order in which claims are reconciled."""

from tests.kubernetes.claims import server

from gantry.kubernetes.api import ipam, meta
from gantry.kubernetes.claims import actions, cache, reconcile_claim, work_order


def claim(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def taken(order: work_order.WorkOrder) -> list[str]:
    out = []
    while key := order.pop_first() or order.pop():
        out.append(key.name)
    return out


def test_work_in_progress_comes_first_and_work_without_a_waiter_last() -> None:
    order = work_order.WorkOrder()
    order.add(claim("gone"), work_order.LAST)
    order.update([claim("a"), claim("b"), claim("a")])
    order.add(claim("begun"), work_order.BEGUN)
    assert taken(order) == ["begun", "a", "b", "gone"]
    assert taken(order) == []


def test_a_claim_is_due_once_and_changes_its_lane() -> None:
    order = work_order.WorkOrder()
    for priority in (work_order.DUE, work_order.LAST, work_order.BEGUN):
        order.add(claim("a"), priority)
    order.add(claim("b"))
    order.discard(claim("b"))
    order.discard(claim("never"))
    assert list(order) == [claim("a")]
    assert taken(order) == ["a"]


def test_the_last_lane_moves_while_there_is_always_other_work() -> None:
    order = work_order.WorkOrder()
    order.add(claim("gone"), work_order.LAST)
    for number in range(2 * work_order.LAST_EVERY):
        order.add(claim(f"c{number}"), work_order.BEGUN)
        order.pop_first()
        if claim("gone") not in order:
            return
    raise AssertionError("it starves")


def test_an_address_that_comes_free_serves_whoever_waits_before_the_next_is_released() -> None:
    api, order = server.Server(), list[str]()
    for body in (
        server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.3"}]),
        *(server.claim(f"c{number}") for number in range(6)),
    ):
        api.create(body)
    controller = server.Controller(api)
    controller.settle()
    for number in range(3):
        api.delete(claim(f"c{number}"))
    controller.see()
    for _ in controller.steps():
        action = controller.sending
        if isinstance(action, actions.Create):
            order.append(f"made for {action.claim.name}")
        elif isinstance(action, actions.Delete):
            order.append("deleted")
    assert order == ["deleted", "made for c3", "deleted", "made for c4", "deleted", "made for c5"]


def test_a_claim_that_waits_has_its_finalizer_before_its_turn_comes() -> None:
    api = server.Server()
    for body in (server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]), server.claim("a"), server.claim("b")):
        api.create(body)
    controller = server.Controller(api)
    controller.settle()
    waits = server.struct(api.get(claim("b")))
    assert isinstance(waits, ipam.IPClaim)
    assert "Exhausted" in waits.status.error_message
    assert waits.metadata.finalizers == (ipam.CLAIM_FINALIZER,)
    api.delete(claim("b"))
    controller.settle()
    assert claim("b") not in api.objects


def test_a_claim_that_changes_while_it_is_worked_on_is_decided_about_again() -> None:
    known = cache.Cache()
    bodies = {"pool": server.kept_pool(), "one": server.claim("one")}
    for body in bodies.values():
        version = {"uid": "u", "resourceVersion": "1"}
        known.put(server.struct({**body, "metadata": {**server.metadata(body), **version}}))
    pool = ipam.pool_ref(server.SITE, "pool-1")
    assert reconcile_claim.step(known, pool, now=server.BEGIN, below=lambda _: 0)
    changed = {"uid": "u", "resourceVersion": "2", "finalizers": [ipam.CLAIM_FINALIZER]}
    known.put(server.struct({**bodies["one"], "metadata": {**server.metadata(bodies["one"]), **changed}}))
    assert reconcile_claim.step(known, pool, now=server.BEGIN, below=lambda _: 0) is None
    assert known.finish(claim("one")) == {pool}
    again = reconcile_claim.step(known, pool, now=server.BEGIN, below=lambda _: 0)
    assert again
    assert isinstance(again.steps[0], actions.Create)
