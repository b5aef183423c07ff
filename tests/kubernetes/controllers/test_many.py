"""The cost of many objects."""

import tracemalloc

import pytest
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api
from tests.kubernetes.controllers.test_controllers import bound, claim_ref, pool_status

from gantry.kubernetes.api import ipam, schema

MANY = 10_000
EACH = 9000
"""Bytes that the controllers may keep of a claim and its address: the rest of 150 MB that the program leaves."""


def served(number: int) -> tuple[schema.Json, schema.Json]:
    """Return a claim with an address, and the address."""
    claim, text = server.claim(f"c{number}"), f"10.1.{number // 250}.{number % 250 + 1}"
    owner = {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "name": f"c{number}", "uid": f"uid-c{number}"}
    address = server.address(f"pool-1-{text.replace('.', '-')}", text, claim=f"c{number}")
    address["metadata"] = {**server.metadata(address), "ownerReferences": [owner]}
    claim["metadata"] = {**server.metadata(claim), "finalizers": [ipam.CLAIM_FINALIZER]}
    claim["status"] = {"address": {"name": server.metadata(address)["name"], "namespace": server.SITE}}
    return claim, address


def settled(kube: api.SimulatedKubernetes) -> None:
    """Add many claims with addresses directly to the server."""
    listed = [server.pool(pools=[{"subnet": "10.0.0.0/8"}])]
    for number in range(MANY):
        listed += served(number)
    for number, body in enumerate(listed):
        born = {"uid": f"uid-{server.metadata(body)['name']}", "resourceVersion": str(number)}
        whole = {**body, "metadata": {**server.metadata(body), **born}}
        kube.api.known.objects[server.struct(whole).ref] = whole


def lists(kube: api.SimulatedKubernetes) -> list[str]:
    """Return the number of lists of each of our kinds."""
    metric_lines = kube.metrics("c1").splitlines()
    return sorted(
        line for line in metric_lines if line.startswith("gantry_kube_lists_total{") and f".{ipam.GROUP}" in line
    )


@pytest.mark.promise("claims-55")
@pytest.mark.slow
def test_ten_thousand_addresses_are_listed_once_and_a_claim_costs_what_it_costs_without_them(
    kube: api.SimulatedKubernetes,
) -> None:
    async def check() -> None:
        settled(kube)
        tracemalloc.start()
        try:
            kube.start()
            await kube.until(lambda: kube.made["c1"].is_ready, limit=600)
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept < MANY * EACH
        once = [
            f'gantry_kube_lists_total{{kind="{plural}.{ipam.GROUP}"}} 1.0'
            for plural in ("ipaddresses", "ipclaims", "ippools")
        ]
        assert lists(kube) == once
        await kube.until(lambda: pool_status(kube).used == MANY, limit=600)
        begin, names = len(kube.api.requests), [f"new-{number}" for number in range(20)]
        for name in names:
            kube.put(server.claim(name))
            await kube.until(lambda: bound(kube, name))  # noqa: B023
        for name in names:
            kube.delete(claim_ref(name))
        await kube.until(lambda: not any(claim_ref(name) in kube.api.known.objects for name in names))
        await kube.until(lambda: pool_status(kube).used == MANY)
        # No list is repeated, no old claim is read again, and the number of requests does not grow.
        assert lists(kube) == once
        later = kube.api.requests[begin:]
        assert not [path for _, path in later if "/ipclaims/c" in path or "/pool-1-10-1-" in path]
        assert len(names) * 5 < len(later) < len(names) * 15

    kube.world.run(check())
