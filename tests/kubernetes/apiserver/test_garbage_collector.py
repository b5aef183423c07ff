import pytest
from tests.kubernetes.apiserver import api

from gantry.kubernetes.apiserver import garbage_collector


async def test_what_was_to_follow_is_done_after_a_restart(kube: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(garbage_collector.GarbageCollector, "_enqueue", lambda self, keys: None)
        owner = await kube.add(api.POOLS, api.pool())
        await kube.add(api.SECRETS, api.secret("mine", ownerReferences=api.owned(owner)))
        await kube.delete(f"{api.POOLS}/pool-1")
        await kube.add(api.NAMESPACES, {"metadata": {"name": "site"}})
        await kube.delete(f"{api.NAMESPACES}/site")
    assert (await kube.get(f"{api.SECRETS}/mine")).status == 200
    await kube.restart()
    await kube.gone(f"{api.SECRETS}/mine")
    await kube.gone(f"{api.NAMESPACES}/site")


async def test_events_go_when_their_time_is_over(kube: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collector, "EVENT_SECONDS", 0.0)
    monkeypatch.setattr(garbage_collector, "CHECK_SECONDS", 0.05)
    await kube.restart()
    await kube.add(api.EVENTS, {"metadata": {"name": "e"}, "reason": "Full"})
    await kube.gone(f"{api.EVENTS}/e")
