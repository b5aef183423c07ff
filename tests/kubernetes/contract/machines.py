"""A machine with its host, for the tests of templates, and the Secrets that are rendered for it."""

import base64

import yaml
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, namespace

from gantry.kubernetes.api import manifests
from gantry.kubernetes.apiserver import resources

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METAL = "infrastructure.cluster.x-k8s.io/v1beta2"


async def define(backend: backends.Backend, kube: namespace.Namespace) -> None:
    """Install the kinds of machines, which belong to other projects, on a server that does not have them."""
    if backends.is_embedded(backend):
        return
    for kind in resources.MACHINES:
        assert (await kube.say("POST", DEFINITIONS, manifests.crd(kind))).status in (201, 409)

        async def served() -> bool:
            return (await kube.get(kind.path(kind.versions[0], kube.name))).status == 200  # noqa: B023

        await kube.until(served)


async def create(kube: namespace.Namespace) -> api.Answer:
    """Create the machine of the samples; return its Metal3Machine."""
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


async def secret(kube: namespace.Namespace, name: str, key: str) -> dict[str, object]:
    """Wait for a Secret; return the content of a key, which is YAML."""

    async def there() -> bool:
        return (await kube.get(f"{kube.secrets}/{name}")).status == 200

    await kube.until(there)
    text = base64.b64decode(str((await kube.get(f"{kube.secrets}/{name}")).at(f"data.{key}")))
    content = yaml.safe_load(text)
    assert isinstance(content, dict)
    return content
