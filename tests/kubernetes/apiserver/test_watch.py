import asyncio

import pytest
from tests.kubernetes.apiserver import api

from gantry.kubernetes.apiserver import read, watch_cache

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_silence_is_broken_by_bookmarks(kube: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "BOOKMARK_SECONDS", 0.05)
    async with kube.watch(api.POOLS, allowWatchBookmarks="true", resourceVersion="1") as events:
        assert [(await events.next())[0] for _ in range(2)] == ["BOOKMARK"] * 2
        await kube.add(api.POOLS, api.pool())
        # Any number of them may have come before the pool was on the disk.
        while (kind := (await events.next())[0]) == "BOOKMARK":
            pass
        assert kind == "ADDED"


async def test_a_version_out_of_the_history_is_answered_by_an_error_event(
    kube: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_cache, "MAX_EVENTS", 5)
    await asyncio.gather(*(kube.add(api.SECRETS, api.secret(f"s{number}")) for number in range(12)))
    async with kube.watch(api.SECRETS, resourceVersion="1") as events:
        kind, answer = await events.next()
        assert (kind, answer.at("code"), answer.at("reason")) == ("ERROR", 410, "Expired")
        assert await events.remaining() == []
    async with kube.watch(api.SECRETS, resourceVersion="999999") as events:
        assert (await events.next())[1].at("code") == 410
    assert (await kube.get(f"{api.SECRETS}?watch=1&resourceVersion=abc")).refusal[0] == 400


async def test_a_watch_resumes_after_a_restart(kube: api.Api) -> None:
    version = (await kube.get(api.SECRETS)).version
    await kube.add(api.SECRETS, api.secret("a"))
    await kube.delete(f"{api.SECRETS}/a")
    await kube.restart()
    async with kube.watch(api.SECRETS, resourceVersion=version) as events:
        assert [await events.named() for _ in range(2)] == [("ADDED", "a"), ("DELETED", "a")]
