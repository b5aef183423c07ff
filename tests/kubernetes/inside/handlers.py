"""A kopf operator on the server of KUBECONFIG; prints the calls of its handlers for one pool, and how it ended."""

import asyncio
import json
import logging
import threading

import kopf

from kubernetes import client, config

GROUP, VERSION, HERE = "ipam.metal3.io", "v1alpha1", "handlers"
seen: dict[str, object] = {}
stop = threading.Event()
ready = threading.Event()
config.load_kube_config()
pools = (GROUP, VERSION, HERE, "ippools")
custom = client.CustomObjectsApi()
core = client.CoreV1Api()
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=HERE)))


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.posting.level = logging.INFO


@kopf.on.create(GROUP, VERSION, "ippools")
def create(name: str, patch: kopf.Patch, body: kopf.Body, **_: object) -> None:
    seen["created"] = name
    kopf.info(body, reason="Seen", message="it is here")
    patch.status["total"] = 9


@kopf.on.update(GROUP, VERSION, "ippools", field="spec.prefix")
def update(new: int, **_: object) -> None:
    seen["updated"] = new


@kopf.on.delete(GROUP, VERSION, "ippools")
def delete(name: str, **_: object) -> None:
    seen["deleted"] = name


def _until(condition: object) -> None:
    assert callable(condition)
    for _ in range(600):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"it did not come so far: {seen}")


def operate() -> None:
    asyncio.run(kopf.operator(standalone=True, namespaces=[HERE], stop_flag=stop, ready_flag=ready))


running = threading.Thread(target=operate, daemon=True)
running.start()
spec = {"namePrefix": "k", "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}]}
body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "IPPool", "metadata": {"name": "watched"}, "spec": spec}
custom.create_namespaced_custom_object(*pools, body)
_until(lambda: "created" in seen)
_until(lambda: custom.get_namespaced_custom_object(*pools, "watched").get("status", {}).get("total") == 9)
seen["finalizers"] = custom.get_namespaced_custom_object(*pools, "watched")["metadata"]["finalizers"]
_until(lambda: any(item.reason == "Seen" for item in core.list_namespaced_event(HERE).items))
custom.patch_namespaced_custom_object(*pools, "watched", {"spec": {"prefix": 24}})
_until(lambda: "updated" in seen)
custom.delete_namespaced_custom_object(*pools, "watched")
_until(lambda: "deleted" in seen)
_until(lambda: not custom.list_namespaced_custom_object(*pools)["items"])
stop.set()
running.join(30)
seen["ended"] = not running.is_alive()
print(json.dumps(seen))
