"""Namespaces are independent: objects of the same name in two of them are unrelated."""

import pytest
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api

from gantry.kubernetes.api import ipam, meta, schema

A, B = "cluster-a", "cluster-b"


def inside(namespace: str, *bodies: schema.Json) -> list[schema.Json]:
    """Return objects, moved to a namespace."""
    return [{**body, "metadata": {**server.metadata(body), "namespace": namespace}} for body in bodies]


def claim(kube: api.SimulatedKubernetes, namespace: str, name: str) -> ipam.IPClaim:
    claim_object = server.struct(kube.api.known.get(meta.Ref(ipam.GROUP, "IPClaim", namespace, name)))
    assert isinstance(claim_object, ipam.IPClaim)
    return claim_object


def addresses(kube: api.SimulatedKubernetes, namespace: str) -> list[str]:
    bodies = [
        body for ref, body in kube.api.known.objects.items() if (ref.kind, ref.namespace) == ("IPAddress", namespace)
    ]
    objects = [server.struct(body) for body in bodies]
    return sorted(each.spec.address for each in objects if isinstance(each, ipam.IPAddress))


@pytest.mark.promise("claims-56")
def test_pools_and_claims_of_two_namespaces_do_not_meet_though_their_names_are_the_same(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        pool = server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}])
        for namespace in (A, B):
            kube.put(*inside(namespace, pool, server.claim("one"), server.claim("two")))
        kube.start()
        await kube.until(lambda: addresses(kube, A) == addresses(kube, B) == ["10.0.0.1"])
        waits = [name for name in ("one", "two") if not claim(kube, A, name).address_name]
        await kube.until(lambda: "Exhausted" in claim(kube, A, waits[0]).status.error_message)
        before = {ref: body for ref, body in kube.api.known.objects.items() if ref.namespace == B}
        for name in ("one", "two"):
            kube.delete(meta.Ref(ipam.GROUP, "IPClaim", A, name))
        kube.delete(ipam.pool_ref(A, "pool-1"))
        await kube.until(lambda: not [ref for ref in kube.api.known.objects if ref.namespace == A])
        # One of them waited there, and is not served by what came free here.
        await kube.world.clock.sleep(600)
        after = {ref: body for ref, body in kube.api.known.objects.items() if ref.namespace == B}
        specs = {ref: body.get("spec") for ref, body in before.items()}
        assert {ref: body.get("spec") for ref, body in after.items()} == specs
        assert len([name for name in ("one", "two") if claim(kube, B, name).address_name]) == 1

    kube.world.run(check())


@pytest.mark.promise("claims-56")
def test_a_claim_takes_nothing_from_a_pool_of_another_namespace(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        across = server.claim("across")
        across["spec"] = {"pool": {"name": "pool-1", "namespace": B}}
        kube.put(*inside(B, server.pool()), *inside(A, across, server.claim("alone")))
        kube.start()
        await kube.until(lambda: bool(claim(kube, A, "across").status.error_message))
        await kube.world.clock.sleep(600)
        assert claim(kube, A, "across").address_name == ""
        assert claim(kube, A, "alone").address_name == ""
        assert addresses(kube, A) == addresses(kube, B) == []

    kube.world.run(check())


@pytest.mark.promise("claims-56")
def test_an_address_made_by_hand_counts_in_its_own_namespace_only(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(*inside(A, server.pool()), *inside(B, server.pool(), server.address("x", "10.0.0.1", claim="nobody")))
        kube.put(*inside(A, server.claim("one")), *inside(B, server.claim("one")))
        kube.start()
        await kube.until(lambda: all(claim(kube, namespace, "one").address_name for namespace in (A, B)))
        assert addresses(kube, A) == ["10.0.0.1"]
        assert addresses(kube, B) == ["10.0.0.1", "10.0.0.2"]

    kube.world.run(check())
