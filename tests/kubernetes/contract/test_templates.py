"""From a data claim to the rendered data of a machine, as in the sample."""

from collections.abc import Iterator

import msgspec
import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, machines, namespace, programs, samples


@pytest.fixture(scope="module", autouse=True)
def _controllers(backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with programs.controllers(backend.kubeconfig, tmp_path_factory.mktemp("controllers"), "--templates"):
        yield


@pytest.fixture(autouse=True)
async def _defined(backend: backends.Backend, kube: namespace.Namespace) -> None:
    await machines.define(backend, kube)


def _template(name: str) -> api.Json:
    """Return the template of the sample in the storage version; other versions need conversion by the provider."""
    (old,) = samples.valid("40-metal3datatemplate-v1beta1", name)
    text = msgspec.json.encode(old).decode().replace("v1beta1", "v1beta2")
    for field in ("ipAddresses", "prefixes", "gateways", "dnsServers"):
        text = text.replace(f'"{field}FromIPPool"', f'"{field}FromPool"')
    text = text.replace('"parameters":{"miimon":100}', '"parameters":[{"name":"miimon","value":100}]')
    return msgspec.json.decode(text, type=api.Json)


@pytest.mark.promise("claims-20", "claims-35", "claims-49", "claims-50", "claims-51", "claims-52")
async def test_a_machine_gets_the_data_of_the_sample(kube: namespace.Namespace) -> None:
    for name in ("50-cluster", "01-ippool-two-ranges", "04-ippool-ipv6", "20-ipaddress-external"):
        await kube.put(*samples.valid(name, kube.name))
    await kube.put(_template(kube.name))
    metal = await machines.create(kube)
    claim = {"name": "worker-abcde", "ownerReferences": api.owned(metal)}
    spec = {"template": {"name": "workers"}}
    await kube.put({"apiVersion": machines.METAL, "kind": "Metal3DataClaim", "metadata": claim, "spec": spec})
    answer = await machines.secret(kube, "worker-abcde-metadata", "metaData")
    # That one is the fourth of its template, this the first.
    assert answer == {**samples.expected_text("metadata.yaml", kube.name), "rank": "w10z"}
    network = await machines.secret(kube, "worker-abcde-networkdata", "networkData")
    for entry in network["networks"] if isinstance(network["networks"], list) else ():
        assert entry.pop("network_id") == entry["id"]
    assert network == samples.expected_text("networkdata.json", kube.name)
    claims = await kube.get(kube.claims)
    assert claims.names == ["workers-0-prov-v4", "workers-0-prov-v6"]
    assert claims.at("items.0.metadata.ownerReferences.0.name") == "workers-0"
    await kube.delete(f"{kube.of(machines.METAL, 'metal3dataclaims')}/worker-abcde")
    await kube.empty(kube.claims)
    assert await kube.allocated_addresses() == ["192.168.0.10"]


@pytest.mark.promise("claims-6")
async def test_templates_share_a_pool(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool())
    metal = await machines.create(kube)
    names = ("workers", "others")
    for name in names:
        spec = {"metaData": {"ipAddressesFromPool": [{"key": "ip", "name": "pool-1"}]}}
        await kube.put({
            "apiVersion": machines.METAL, "kind": "Metal3DataTemplate", "metadata": {"name": name},
            "spec": {"clusterName": "edge-1", **spec},
        })  # fmt: skip
        head = {"name": f"{name}-machine", "ownerReferences": api.owned(metal)}
        template = {"template": {"name": name}}
        await kube.put({"apiVersion": machines.METAL, "kind": "Metal3DataClaim", "metadata": head, "spec": template})
    addresses = await kube.bound(*(f"{name}-0-pool-1" for name in names))
    assert sorted(addresses) == ["10.0.0.1", "10.0.0.2"]
