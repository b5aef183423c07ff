"""Namespaces are independent: objects of the same name in two of them are unrelated."""

import pytest
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api

from gantry.kubernetes.api import ipam, meta, schema

A, B = "cluster-a", "cluster-b"


def inside(namespace: str, *bodies: schema.Json) -> list[schema.Json]:
    """Return objects, moved to a namespace."""
    return [{**body, "metadata": {**server.metadata(body), "namespace": namespace}} for body in bodies]


def claim(site: api.Site, namespace: str, name: str) -> ipam.IPClaim:
    claim_object = server.struct(site.api.known.get(meta.Ref(ipam.GROUP, "IPClaim", namespace, name)))
    assert isinstance(claim_object, ipam.IPClaim)
    return claim_object


def addresses(site: api.Site, namespace: str) -> list[str]:
    bodies = [
        body for ref, body in site.api.known.objects.items() if (ref.kind, ref.namespace) == ("IPAddress", namespace)
    ]
    objects = [server.struct(body) for body in bodies]
    return sorted(each.spec.address for each in objects if isinstance(each, ipam.IPAddress))


@pytest.mark.promise("claims-56")
def test_pools_and_claims_of_two_namespaces_do_not_meet_though_their_names_are_the_same(site: api.Site) -> None:
    async def check() -> None:
        pool = server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}])
        for namespace in (A, B):
            site.put(*inside(namespace, pool, server.claim("one"), server.claim("two")))
        site.start()
        await site.until(lambda: addresses(site, A) == addresses(site, B) == ["10.0.0.1"])
        waits = [name for name in ("one", "two") if not claim(site, A, name).address_name]
        await site.until(lambda: "Exhausted" in claim(site, A, waits[0]).status.error_message)
        before = {ref: body for ref, body in site.api.known.objects.items() if ref.namespace == B}
        for name in ("one", "two"):
            site.delete(meta.Ref(ipam.GROUP, "IPClaim", A, name))
        site.delete(ipam.pool_ref(A, "pool-1"))
        await site.until(lambda: not [ref for ref in site.api.known.objects if ref.namespace == A])
        # One of them waited there, and is not served by what came free here.
        await site.world.clock.sleep(600)
        after = {ref: body for ref, body in site.api.known.objects.items() if ref.namespace == B}
        specs = {ref: body.get("spec") for ref, body in before.items()}
        assert {ref: body.get("spec") for ref, body in after.items()} == specs
        assert len([name for name in ("one", "two") if claim(site, B, name).address_name]) == 1

    site.world.run(check())


@pytest.mark.promise("claims-56")
def test_a_claim_takes_nothing_from_a_pool_of_another_namespace(site: api.Site) -> None:
    async def check() -> None:
        across = server.claim("across")
        across["spec"] = {"pool": {"name": "pool-1", "namespace": B}}
        site.put(*inside(B, server.pool()), *inside(A, across, server.claim("alone")))
        site.start()
        await site.until(lambda: bool(claim(site, A, "across").status.error_message))
        await site.world.clock.sleep(600)
        assert claim(site, A, "across").address_name == ""
        assert claim(site, A, "alone").address_name == ""
        assert addresses(site, A) == addresses(site, B) == []

    site.world.run(check())


@pytest.mark.promise("claims-56")
def test_an_address_made_by_hand_counts_in_its_own_namespace_only(site: api.Site) -> None:
    async def check() -> None:
        site.put(*inside(A, server.pool()), *inside(B, server.pool(), server.address("x", "10.0.0.1", claim="nobody")))
        site.put(*inside(A, server.claim("one")), *inside(B, server.claim("one")))
        site.start()
        await site.until(lambda: all(claim(site, namespace, "one").address_name for namespace in (A, B)))
        assert addresses(site, A) == ["10.0.0.1"]
        assert addresses(site, B) == ["10.0.0.1", "10.0.0.2"]

    site.world.run(check())
