"""The kubernetes_asyncio client on the server of KUBECONFIG; prints its observations."""

import asyncio
import json

from kubernetes_asyncio import client, config, watch

NAME, HOLD = "async", "example.com/hold"
POOLS = ("ipam.metal3.io", "v1alpha1", "default", "ippools")
POOL = {
    "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": NAME, "finalizers": [HOLD]},
    "spec": {"namePrefix": "a", "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]},
}  # fmt: skip
MERGE = "application/merge-patch+json"
seen: dict[str, object] = {}


async def until_deleted(custom: client.CustomObjectsApi, version: str) -> list[str]:
    """Return the kinds of all events of the pool, to its end."""
    kinds = []
    async with watch.Watch() as stream:
        listing = stream.stream(custom.list_namespaced_custom_object, *POOLS, resource_version=version)
        async for event in listing:
            if event["object"]["metadata"]["name"] == NAME:
                kinds.append(event["type"])
            if kinds[-1:] == ["DELETED"]:
                break
    return kinds


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as connection:
        custom = client.CustomObjectsApi(connection)
        version = (await custom.list_namespaced_custom_object(*POOLS))["metadata"]["resourceVersion"]
        watching = asyncio.create_task(until_deleted(custom, version))
        await custom.create_namespaced_custom_object(*POOLS, POOL)
        try:
            # Its default is a JSON patch; this body is a merge patch.
            await custom.patch_namespaced_custom_object(*POOLS, NAME, {"spec": {"prefix": 24}})
        except client.ApiException as error:
            seen["default"] = error.status
        changed = await custom.patch_namespaced_custom_object(
            *POOLS, NAME, {"spec": {"prefix": 24}}, _content_type=MERGE
        )
        seen["patched"] = [changed["spec"]["prefix"], changed["metadata"]["generation"]]
        listed = await custom.list_namespaced_custom_object(*POOLS)
        seen["listed"] = [pool["metadata"]["name"] for pool in listed["items"] if pool["metadata"]["name"] == NAME]
        await custom.delete_namespaced_custom_object(*POOLS, NAME)
        metadata = (await custom.get_namespaced_custom_object(*POOLS, NAME))["metadata"]
        seen["held"] = [bool(metadata.get("deletionTimestamp")), metadata["finalizers"]]
        free = [{"op": "remove", "path": "/metadata/finalizers"}]
        await custom.patch_namespaced_custom_object(*POOLS, NAME, free)
        seen["watched"] = await asyncio.wait_for(watching, 60)
        try:
            await custom.get_namespaced_custom_object(*POOLS, NAME)
        except client.ApiException as error:
            seen["gone"] = error.status


asyncio.run(main())
print(json.dumps(seen))
