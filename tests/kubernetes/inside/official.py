"""The official client, typed, untyped and dynamic, on the server of KUBECONFIG; prints its observations."""

import json

from kubernetes import client, config, dynamic, watch

GROUP, VERSION, HERE = "ipam.metal3.io", "v1alpha1", "official"
POOL = {
    "apiVersion": f"{GROUP}/{VERSION}", "kind": "IPPool", "metadata": {"name": "official"},
    "spec": {"namePrefix": "o", "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]},
}  # fmt: skip

config.load_kube_config()
seen: dict[str, object] = {}
core, custom, leases = client.CoreV1Api(), client.CustomObjectsApi(), client.CoordinationV1Api()
seen["version"] = client.VersionApi().get_code().minor
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="official")))
seen["namespaces"] = sorted({item.metadata.name for item in core.list_namespace().items} & {"default", "official"})

pools = (GROUP, VERSION, HERE, "ippools")
created = custom.create_namespaced_custom_object(*pools, POOL)
try:
    custom.create_namespaced_custom_object(*pools, POOL)
except client.ApiException as error:
    seen["twice"] = [error.status, json.loads(error.body)["reason"]]
changed = custom.patch_namespaced_custom_object(*pools, "official", {"spec": {"prefix": 24}})
seen["patched"] = [changed["spec"]["prefix"], changed["metadata"]["generation"]]
status = custom.patch_namespaced_custom_object_status(*pools, "official", {"status": {"total": 9}})
seen["status"] = status["status"]["total"]
stream = watch.Watch().stream(
    custom.list_namespaced_custom_object,
    *pools,
    resource_version=created["metadata"]["resourceVersion"],
    timeout_seconds=1,
)
seen["watched"] = [event["type"] for event in stream]

lease = client.V1Lease(metadata=client.V1ObjectMeta(name="lead"), spec=client.V1LeaseSpec(holder_identity="me"))
created_lease = leases.create_namespaced_lease(HERE, lease)
created_lease.spec.holder_identity = "you"
leases.replace_namespaced_lease("lead", HERE, created_lease)
try:
    leases.replace_namespaced_lease("lead", HERE, created_lease)
except client.ApiException as error:
    seen["late"] = error.status

kinds = dynamic.DynamicClient(client.ApiClient())
resource = kinds.resources.get(api_version=f"{GROUP}/{VERSION}", kind="IPPool")
seen["dynamic"] = [item.metadata.name for item in resource.get(namespace=HERE).items]
body = {**POOL, "metadata": {"name": "applied"}}
applied = kinds.server_side_apply(resource, body=body, namespace=HERE, name="applied", field_manager="me")
seen["applied"] = applied.metadata.managedFields[0].manager
custom.delete_namespaced_custom_object(*pools, "official")
seen["left"] = [pool["metadata"]["name"] for pool in custom.list_namespaced_custom_object(*pools)["items"]]
print(json.dumps(seen))
