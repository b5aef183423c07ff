"""The objects that Metal3's design shows, and what it says of them, by controllers that draw at random."""

import re
from collections.abc import Iterator

import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import admission, backends, machines, namespace, samples

DATA_UID = "00000000-0000-0000-0000-00000000da7a"
RANGES = {f"192.168.{net}.{host}" for net in (0, 1) for host in range(10, 16)}


@pytest.fixture(scope="module", autouse=True)
def _controllers(backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with admission.controllers(backend, tmp_path_factory.mktemp("controllers"), "--random-order", "--templates"):
        yield


async def _pool(kube: namespace.Namespace) -> api.Answer:
    """Create the design's pool, and its owners before; return the answer."""
    await kube.put(*samples.design("clusters", kube.name))
    (pool,) = samples.design("ippool", kube.name, Metal3Cluster=await _owner(kube))
    return await kube.create(pool)


async def _owner(kube: namespace.Namespace) -> str:
    return (await kube.get(f"{kube.of(machines.METAL, 'metal3clusters')}/cluster-1")).uid


@pytest.mark.promise("claims-15", "claims-21")
async def test_the_pool_of_the_design_is_taken_word_for_word_with_a_warning(kube: namespace.Namespace) -> None:
    answer = await _pool(kube)
    assert answer.status == 201, answer
    (sample,) = samples.design("ippool", kube.name, Metal3Cluster="")
    spec, sample_spec = answer.body["spec"], sample["spec"]
    assert isinstance(spec, dict)
    assert isinstance(sample_spec, dict)
    assert {key: spec[key] for key in sample_spec} == sample_spec
    assert "192.168.0.8, 192.168.0.9: in a subnet of the pool, but in none of its ranges" in answer.headers["Warning"]


@pytest.mark.promise("claims-27")
async def test_the_pool_of_the_design_keeps_its_owner(kube: namespace.Namespace) -> None:
    await _pool(kube)
    expected = {("Metal3Cluster", await _owner(kube)), ("Cluster", (await kube.get(f"{kube.clusters}/cluster-1")).uid)}

    async def owned() -> bool:
        owners = (await kube.get(kube.pool)).at("metadata.ownerReferences")
        assert isinstance(owners, list)
        return {(owner["kind"], owner["uid"]) for owner in owners} == expected

    await kube.until(owned)


@pytest.mark.promise("claims-24", "claims-29", "claims-30", "claims-31", "claims-32", "claims-34")
async def test_the_claim_of_the_design_gets_an_address_as_the_design_shows_it(kube: namespace.Namespace) -> None:
    await _pool(kube)
    await kube.put(*samples.design("ipclaim", kube.name, Data=DATA_UID))
    (text,) = await kube.bound("rendereddata-1")
    assert text in RANGES
    name = f"provisioning-{text.replace('.', '-')}"
    claim, address = await kube.get(f"{kube.claims}/rendereddata-1"), await kube.get(f"{kube.addresses}/{name}")
    gateway = f"{text.rpartition('.')[0]}.1"
    assert [address.at(f"spec.{field}") for field in ("claim.name", "address", "prefix", "gateway", "pool.name")] == [
        "rendereddata-1", text, 24, gateway, "pool-1",
    ]  # fmt: skip
    owners = [address.at(f"metadata.ownerReferences.{index}.kind") for index in (0, 1)]
    assert (owners, address.at("status.ready")) == (["IPPool", "IPClaim"], True)
    assert (claim.at("spec.owner.name"), claim.at("status.ipAddress.name")) == ("RenderedData-1", name)
    assert not claim.at("status.errorMessage")
    allocations = {"rendereddata-1": text, "RenderedData-10": "192.168.0.9", "RenderedData-9": "192.168.0.8"}

    async def is_displayed() -> bool:
        return (await kube.get(kube.pool)).at("status.allocations") == allocations

    await kube.until(is_displayed)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str((await kube.get(kube.pool)).at("status.lastUpdated")))


@pytest.mark.promise("claims-13", "claims-42")
async def test_claims_on_the_pool_of_the_design_get_addresses_at_random(kube: namespace.Namespace) -> None:
    await _pool(kube)
    drawn: list[str] = []
    for number in range(12):
        name = f"rendereddata-{number}"
        await kube.put(namespace.claim(name))
        drawn += await kube.bound(name)
    assert set(drawn) == RANGES
    # A draw is the first free address from a random position on: chance draws them in their order once in 18,600 runs.
    assert drawn != sorted(drawn)


@pytest.mark.promise("claims-9", "claims-21", "claims-36")
async def test_the_claims_that_the_pool_of_the_design_names_get_those_addresses(kube: namespace.Namespace) -> None:
    await _pool(kube)
    ahead = {"rendereddata-10": "192.168.0.9", "rendereddata-9": "192.168.0.8"}
    capital = dict.fromkeys(("RenderedData-10", "RenderedData-9"))
    assert (await kube.patch(kube.pool, {"spec": {"preAllocations": capital | ahead}})).status == 200
    await kube.put(*map(namespace.claim, ahead))
    assert await kube.bound(*ahead) == [*ahead.values()]
    address = await kube.get(f"{kube.addresses}/provisioning-192-168-0-9")
    assert [address.at(f"spec.{field}") for field in ("prefix", "gateway")] == [24, "192.168.0.1"]


@pytest.mark.promise("claims-49", "claims-50", "claims-51", "claims-52", "claims-53")
async def test_the_template_of_the_design_is_rendered(kube: namespace.Namespace, backend: backends.Backend) -> None:
    await machines.define(backend, kube)
    await _pool(kube)
    await kube.put(namespace.pool("pool-2", ("192.168.2.20", "192.168.2.20"), prefix=25))
    await kube.put(*samples.design("metal3datatemplate", kube.name, Metal3Cluster=await _owner(kube)))
    head = {"name": "machine-1", "ownerReferences": api.owned(await machines.create(kube))}
    spec = {"template": {"name": "nodepool-1"}}
    await kube.put({"apiVersion": machines.METAL, "kind": "Metal3DataClaim", "metadata": head, "spec": spec})
    metadata = await machines.secret(kube, "worker-abcde-metadata", "metaData")
    (text,) = await kube.bound("nodepool-1-0-pool-1")
    gateway = f"{text.rpartition('.')[0]}.1"
    assert metadata.items() >= {"ip-address-1": text, "netmask-1": "24", "gateway-1": gateway}.items()
    network = await machines.secret(kube, "worker-abcde-networkdata", "networkData")
    expected = [
        ("Baremetal", "vlan1", text, "255.255.255.0", gateway),
        ("Provisioning", "vlan2", "192.168.2.20", "255.255.255.128", "192.168.1.1"),
    ]
    assert [_network(each) for each in _list(network["networks"])] == expected
    template = f"{kube.of(machines.METAL, 'metal3datatemplates')}/nodepool-1"

    async def is_displayed() -> bool:
        return bool((await kube.get(template)).at("status.lastUpdated"))

    await kube.until(is_displayed)
    if backends.is_embedded(backend):
        assert (await kube.get(template)).at("status.dataNames") == {"machine-1": "nodepool-1-0"}


def _list(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def _network(rendered: dict[str, object]) -> tuple[object, ...]:
    """Return id, link, address, netmask and gateway of a rendered network, which has the route of the design."""
    (route,) = _list(rendered["routes"])
    assert (route["network"], route["netmask"]) == ("0.0.0.0", "0.0.0.0")
    assert route["services"] == [{"type": "dns", "address": "8.8.4.4"}]
    return *(rendered[key] for key in ("id", "link", "ip_address", "netmask")), route["gateway"]
