"""The lightkube client on the server of KUBECONFIG; prints its observations."""

import json

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, Secret
from lightkube.types import CascadeType, PatchType

Pool = create_namespaced_resource("ipam.metal3.io", "v1alpha1", "IPPool", "ippools")
client = Client(field_manager="light")
seen: dict[str, object] = {}
client.create(Namespace(metadata=ObjectMeta(name="light")))
seen["namespaces"] = sorted({namespace.metadata.name for namespace in client.list(Namespace)} & {"default", "light"})
spec = {"namePrefix": "l", "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]}
created = client.create(Pool(metadata=ObjectMeta(name="one", namespace="light"), spec=spec))
try:
    client.patch(Pool, "one", {"spec": {"prefix": 24}}, namespace="light")
except ApiError as error:
    seen["strategic"] = error.status.code
changed = client.patch(Pool, "one", {"spec": {"prefix": 24}}, namespace="light", patch_type=PatchType.MERGE)
seen["patched"] = changed.spec["prefix"]
for kind, pool in client.watch(
    Pool, namespace="light", resource_version=created.metadata.resourceVersion, server_timeout=5
):
    seen["watched"] = [kind, pool.metadata.name]
    break
applied = client.apply(Pool(metadata=ObjectMeta(name="two", namespace="light"), spec=spec))
seen["applied"] = applied.metadata.managedFields[0].manager
client.create(Secret(metadata=ObjectMeta(name="s", namespace="light"), stringData={"key": "value"}))
seen["secret"] = client.get(Secret, "s", namespace="light").data
pools = client.list(Pool, namespace="*")
seen["listed"] = sorted(pool.metadata.name for pool in pools if pool.metadata.namespace == "light")
client.delete(Pool, "one", namespace="light", cascade=CascadeType.BACKGROUND)
try:
    client.get(Pool, "one", namespace="light")
except ApiError as error:
    seen["gone"] = error.status.reason
client.delete(Namespace, "light")
print(json.dumps(seen))
