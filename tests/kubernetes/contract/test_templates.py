"""From a data claim to the rendered data of a machine, as in the sample."""

import base64
from collections.abc import Iterator

import msgspec
import pytest
import yaml
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, namespace, programs, samples

from gantry.kubernetes.api import manifests
from gantry.kubernetes.apiserver import resources

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METAL = "infrastructure.cluster.x-k8s.io/v1beta2"


@pytest.fixture(scope="module", autouse=True)
def _controllers(backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with programs.controllers(backend.kubeconfig, tmp_path_factory.mktemp("controllers"), "--templates"):
        yield


@pytest.fixture(autouse=True)
async def _defined(backend: backends.Backend, kube: namespace.Namespace) -> None:
    """Install the kinds of machines, which belong to other projects."""
    if backends.is_embedded(backend):
        return
    for kind in resources.MACHINES:
        assert (await kube.say("POST", DEFINITIONS, manifests.crd(kind))).status in (201, 409)

        async def served() -> bool:
            return (await kube.get(kind.path(kind.versions[0], kube.name))).status == 200  # noqa: B023

        await kube.until(served)


async def _machine(kube: namespace.Namespace) -> api.Answer:
    """Create the machine of the sample; return its Metal3Machine."""
    machine = await kube.create(
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m-0"}, "spec": {}}
    )
    host = {"name": "node-9", "labels": {"rack": "r12"}}
    await kube.put({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": host, "spec": {}})
    nics = [{"name": "eno1", "mac": "52:54:00:00:00:01"}]
    path = f"{kube.of('metal3.io/v1alpha1', 'baremetalhosts')}/node-9/status"
    assert (await kube.patch(path, {"status": {"hardware": {"nics": nics}}})).status == 200
    notes = {"example.org/owner": "ops", "metal3.io/BareMetalHost": f"{kube.name}/node-9"}
    head = {"name": "worker-abcde", "annotations": notes, "ownerReferences": api.owned(machine)}
    return await kube.create({"apiVersion": METAL, "kind": "Metal3Machine", "metadata": head, "spec": {}})


def _template(name: str) -> api.Json:
    """Return the template of the sample in the storage version; other versions need conversion by the provider."""
    (old,) = samples.valid("40-metal3datatemplate-v1beta1", name)
    text = msgspec.json.encode(old).decode().replace("v1beta1", "v1beta2")
    for field in ("ipAddresses", "prefixes", "gateways", "dnsServers"):
        text = text.replace(f'"{field}FromIPPool"', f'"{field}FromPool"')
    text = text.replace('"parameters":{"miimon":100}', '"parameters":[{"name":"miimon","value":100}]')
    return msgspec.json.decode(text, type=api.Json)


async def _secret(kube: namespace.Namespace, name: str, key: str) -> dict[str, object]:
    async def there() -> bool:
        return (await kube.get(f"{kube.secrets}/{name}")).status == 200

    await kube.until(there)
    text = base64.b64decode(str((await kube.get(f"{kube.secrets}/{name}")).at(f"data.{key}")))
    content = yaml.safe_load(text)
    assert isinstance(content, dict)
    return content


@pytest.mark.promise("claims-20", "claims-35", "claims-49", "claims-50", "claims-51", "claims-52")
async def test_a_machine_gets_the_data_of_the_sample(kube: namespace.Namespace) -> None:
    for name in ("50-cluster", "01-ippool-two-ranges", "04-ippool-ipv6", "20-ipaddress-external"):
        await kube.put(*samples.valid(name, kube.name))
    await kube.put(_template(kube.name))
    metal = await _machine(kube)
    claim = {"name": "worker-abcde", "ownerReferences": api.owned(metal)}
    spec = {"template": {"name": "workers"}}
    await kube.put({"apiVersion": METAL, "kind": "Metal3DataClaim", "metadata": claim, "spec": spec})
    answer = await _secret(kube, "worker-abcde-metadata", "metaData")
    # That one is the fourth of its template, this the first.
    assert answer == {**samples.expected_text("metadata.yaml", kube.name), "rank": "w10z"}
    network = await _secret(kube, "worker-abcde-networkdata", "networkData")
    for entry in network["networks"] if isinstance(network["networks"], list) else ():
        assert entry.pop("network_id") == entry["id"]
    assert network == samples.expected_text("networkdata.json", kube.name)
    claims = await kube.get(kube.claims)
    assert claims.names == ["workers-0-prov-v4", "workers-0-prov-v6"]
    assert claims.at("items.0.metadata.ownerReferences.0.name") == "workers-0"
    await kube.delete(f"{kube.of(METAL, 'metal3dataclaims')}/worker-abcde")
    await kube.empty(kube.claims)
    assert await kube.allocated_addresses() == ["192.168.0.10"]
