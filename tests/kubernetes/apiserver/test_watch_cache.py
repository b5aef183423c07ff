"""The number of events that a collection keeps."""

import pytest

from gantry.kubernetes.apiserver import status_errors, watch_cache


def item(version: int, size: int) -> watch_cache.Item:
    key = watch_cache.Key("ippools.ipam.metal3.io", "site-a", "pool-1")
    return watch_cache.Item(
        key=key, version=version, uid="u", labels={}, owners=(), is_deleting=False, finalizers=(), body=b"x" * size
    )


def entered(sizes: list[int]) -> watch_cache.Collection:
    collection = watch_cache.Collection()
    for version, size in enumerate(sizes, 1):
        collection.add_event(item(version, size), gone=False)
    return collection


@pytest.mark.parametrize("size", [1, 1000])
def test_the_past_is_bounded_by_events_and_by_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(watch_cache, "MAX_EVENTS", 20)
    monkeypatch.setattr(watch_cache, "MAX_EVENT_BYTES", 10_000)
    collection = entered([size] * 1000)
    kept = collection.since(collection.floor)
    assert 0 < len(kept) <= 2 * 20
    assert sum(len(event.item.body) for event in kept) <= 2 * 10_000
    assert [event.item.version for event in kept] == list(range(collection.floor + 1, 1001))
    with pytest.raises(status_errors.StatusError):
        collection.since(collection.floor - 1)


def test_an_object_that_is_larger_than_all_that_is_kept_is_there_and_its_event_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_cache, "MAX_EVENT_BYTES", 10)
    collection = entered([1, 50])
    assert collection.get("site-a", "pool-1") == item(2, 50)
    assert (collection.floor, collection.since(2)) == (2, [])
