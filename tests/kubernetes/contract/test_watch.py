import asyncio

from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_a_watch_goes_on_from_the_version_of_a_list(kube: namespace.Namespace) -> None:
    await kube.add(kube.leases, namespace.lease("before"))
    version = (await kube.get(kube.leases)).version
    created = await kube.add(kube.leases, namespace.lease("one"))
    async with kube.watch(kube.leases, resourceVersion=version) as events:
        kind, answer = await events.next()
        assert (kind, answer.body) == ("ADDED", created.body)
        changed = await kube.patch(f"{kube.leases}/one", {"spec": {"holderIdentity": "new"}})
        kind, answer = await events.next()
        assert (kind, answer.body) == ("MODIFIED", changed.body)
        await kube.delete(f"{kube.leases}/one")
        kind, answer = await events.next()
        assert (kind, answer.at("spec.holderIdentity"), int(answer.version) > int(changed.version)) == (
            "DELETED",
            "new",
            True,
        )


async def test_a_watch_without_a_version_tells_what_is_there_first(kube: namespace.Namespace) -> None:
    ours = {"of": kube.name}
    await kube.add(kube.leases, namespace.lease("b", labels=ours))
    await kube.add(kube.leases, namespace.lease("a", labels=ours))
    async with kube.watch("/apis/coordination.k8s.io/v1/leases", labelSelector=f"of={kube.name}") as events:
        assert {await events.named() for _ in range(2)} == {("ADDED", "a"), ("ADDED", "b")}
        await kube.add(kube.leases, namespace.lease("c", labels=ours))
        assert await events.named() == ("ADDED", "c")


async def test_initial_events_end_with_a_bookmark_that_says_so(kube: namespace.Namespace) -> None:
    kube.needs(1, 27, "a list as events")
    await kube.add(kube.leases, namespace.lease("a"))
    parameters = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    async with kube.watch(kube.leases, **parameters) as events:
        assert await events.named() == ("ADDED", "a")
        kind, answer = await events.next()
        assert (kind, answer.at("metadata.annotations")) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
        assert int(answer.version) >= 1


async def test_what_begins_or_ceases_to_be_wanted_is_added_or_deleted(kube: namespace.Namespace) -> None:
    await kube.add(kube.leases, namespace.lease("a"))
    path = f"{kube.leases}/a"
    version = (await kube.get(kube.leases)).version
    async with kube.watch(kube.leases, labelSelector="tier=web", resourceVersion=version) as events:
        await kube.add(kube.leases, namespace.lease("other"))
        for labels in ({"tier": "web"}, {"tier": "web", "x": "y"}, {"tier": "db"}):
            await kube.patch(path, {"metadata": {"labels": labels}})
        assert [await events.named() for _ in range(3)] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_one_object_and_one_namespace_are_watched_alone(kube: namespace.Namespace) -> None:
    created = await kube.add(api.NAMESPACES, {"metadata": {"name": f"{kube.name}-2"}})
    elsewhere = f"/apis/coordination.k8s.io/v1/namespaces/{kube.name}-2/leases"
    async with (
        kube.watch(kube.leases, fieldSelector="metadata.name=b", resourceVersion=created.version) as named,
        kube.watch(elsewhere, resourceVersion=created.version) as other,
    ):
        await kube.add(kube.leases, namespace.lease("a"))
        await kube.add(elsewhere, namespace.lease("elsewhere"))
        await kube.add(kube.leases, namespace.lease("b"))
        assert (await named.named(), await other.named()) == (("ADDED", "b"), ("ADDED", "elsewhere"))


async def test_a_watch_ends_in_its_time(kube: namespace.Namespace) -> None:
    version = (await kube.get(kube.pools)).version
    async with kube.watch(kube.pools, timeoutSeconds="1", resourceVersion=version) as events:
        assert await events.remaining() == []


async def test_a_watch_says_at_its_end_how_far_it_has_come(kube: namespace.Namespace) -> None:
    kube.needs(1, 21, "a bookmark before the end of a watch of seconds")
    version = (await kube.get(kube.pools)).version
    parameters = {"timeoutSeconds": "1", "allowWatchBookmarks": "True", "resourceVersion": version}
    async with kube.watch(kube.pools, **parameters) as events:
        kind, answer = await events.next()
        assert (kind, answer.body["kind"], int(answer.version) >= int(version)) == ("BOOKMARK", "IPPool", True)
        assert await events.remaining() == []


async def test_each_event_of_a_table_watch_is_a_table_of_one_row(kube: namespace.Namespace) -> None:
    version = (await kube.get(kube.pools)).version
    async with kube.watch(kube.pools, accept=TABLE, resourceVersion=version) as events:
        await kube.add(kube.pools, api.pool())
        kind, answer = await events.next()
        assert (kind, answer.body["kind"], answer.at("rows.0.cells.0")) == ("ADDED", "Table", "pool-1")


async def test_many_watches_see_all_changes_in_one_order(kube: namespace.Namespace) -> None:
    version = (await kube.get(kube.leases)).version

    async def follow() -> list[str]:
        async with kube.watch(kube.leases, resourceVersion=version) as events:
            return [(await events.next())[1].version for _ in range(30)]

    following = [asyncio.create_task(follow()) for _ in range(4)]
    created = await asyncio.gather(*(kube.add(kube.leases, namespace.lease(f"s{number}")) for number in range(30)))
    versions = sorted((lease.version for lease in created), key=int)
    assert await asyncio.gather(*following) == [versions] * 4


async def test_a_version_that_is_none_is_bad(kube: namespace.Namespace) -> None:
    assert (await kube.get(f"{kube.pools}?watch=1&resourceVersion=abc")).status in (400, 500)
