"""The kr8s client on the server of KUBECONFIG; prints its observations."""

import asyncio
import json

from kr8s.asyncio import api, objects

NAME = "small"
HOLD = "example.com/hold"
Pool = objects.new_class(kind="IPPool", version="ipam.metal3.io/v1alpha1", namespaced=True, plural="ippools")
seen: dict[str, object] = {}


def pool(name: str) -> dict[str, object]:
    spec = {"namePrefix": name, "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]}
    metadata = {"name": name, "namespace": "default", "finalizers": [HOLD]}
    return {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": metadata, "spec": spec}


async def main() -> None:
    client = await api()
    listed = [each.name async for each in client.get(Pool, namespace="default")]
    watched: list[list[str]] = []

    async def watch() -> None:
        async for event, changed_pool in client.watch(Pool, namespace="default"):
            if changed_pool.name == NAME:
                watched.append([event, changed_pool.name])
            if event == "DELETED":
                return

    watching = asyncio.create_task(watch())
    created = await Pool(pool(NAME))
    await created.create()
    await created.patch({"spec": {"prefix": 24}})
    await created.refresh()
    seen["patched"] = [created.spec.prefix, created.raw["metadata"]["generation"]]
    seen["listed"] = sorted({each.name async for each in client.get(Pool, namespace="default")} - set(listed))
    await created.delete()
    await created.refresh()
    seen["held"] = [bool(created.raw["metadata"].get("deletionTimestamp")), created.raw["metadata"]["finalizers"]]
    await created.patch({"metadata": {"finalizers": None}})
    await asyncio.wait_for(watching, 60)
    seen["watched"] = [watched[0], watched[-1]]
    seen["exists"] = await created.exists()


asyncio.run(main())
print(json.dumps(seen))
