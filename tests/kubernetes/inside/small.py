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
    listed = [one.name async for one in client.get(Pool, namespace="default")]
    watched: list[list[str]] = []

    async def watch() -> None:
        async for event, one in client.watch(Pool, namespace="default"):
            if one.name == NAME:
                watched.append([event, one.name])
            if event == "DELETED":
                return

    watching = asyncio.create_task(watch())
    made = await Pool(pool(NAME))
    await made.create()
    await made.patch({"spec": {"prefix": 24}})
    await made.refresh()
    seen["patched"] = [made.spec.prefix, made.raw["metadata"]["generation"]]
    seen["listed"] = sorted({one.name async for one in client.get(Pool, namespace="default")} - set(listed))
    await made.delete()
    await made.refresh()
    seen["held"] = [bool(made.raw["metadata"].get("deletionTimestamp")), made.raw["metadata"]["finalizers"]]
    await made.patch({"metadata": {"finalizers": None}})
    await asyncio.wait_for(watching, 60)
    seen["watched"] = [watched[0], watched[-1]]
    seen["exists"] = await made.exists()


asyncio.run(main())
print(json.dumps(seen))
