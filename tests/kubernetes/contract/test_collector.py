from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace


async def test_what_an_object_alone_owned_goes_with_it(kube: namespace.Namespace) -> None:
    first, second = [await kube.add(kube.pools, api.pool(name)) for name in ("one", "two")]
    await kube.add(kube.leases, namespace.lease("mine", ownerReferences=api.owned(first)))
    await kube.add(kube.leases, namespace.lease("ours", ownerReferences=api.owned(first) + api.owned(second)))
    await kube.add(kube.leases, namespace.lease("free"))
    assert (await kube.delete(f"{kube.pools}/one")).body["status"] == "Success"
    await kube.gone(f"{kube.leases}/mine")
    assert (await kube.get(kube.leases)).names == ["free", "ours"]

    async def struck_out() -> bool:
        return (await kube.get(f"{kube.leases}/ours")).at("metadata.ownerReferences") == api.owned(second)

    await kube.until(struck_out)
    await kube.delete(f"{kube.pools}/two")
    await kube.gone(f"{kube.leases}/ours")
    assert (await kube.get(kube.leases)).names == ["free"]


async def test_an_owner_is_known_by_its_uid_not_by_its_name(kube: namespace.Namespace) -> None:
    old = await kube.add(kube.pools, api.pool())
    await kube.delete(f"{kube.pools}/pool-1")
    await kube.add(kube.pools, api.pool())
    await kube.add(kube.leases, namespace.lease("late", ownerReferences=api.owned(old)))
    await kube.gone(f"{kube.leases}/late")


async def test_an_owner_of_a_kind_that_is_not_served_counts_as_there(kube: namespace.Namespace) -> None:
    far = [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "1"}]
    lost = [{"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "name": "x", "uid": "2"}]
    await kube.add(kube.leases, namespace.lease("far", ownerReferences=far))
    await kube.add(kube.leases, namespace.lease("lost", ownerReferences=lost))
    await kube.gone(f"{kube.leases}/lost")
    assert (await kube.get(kube.leases)).names == ["far"]


async def test_foreground_deletion_waits_for_what_blocks(kube: namespace.Namespace) -> None:
    owner = await kube.add(kube.pools, api.pool())
    held_lease = namespace.lease("held", ownerReferences=api.owned(owner, block=True), finalizers=["example.com/hold"])
    await kube.add(kube.leases, held_lease)
    answer = await kube.delete(f"{kube.pools}/pool-1?propagationPolicy=Foreground")
    assert answer.at("metadata.finalizers") == ["foregroundDeletion"]
    async with kube.watch(kube.leases, resourceVersion=owner.version) as events:
        while (await events.next())[1].at("metadata.deletionTimestamp") is None:
            pass
    assert (await kube.get(f"{kube.pools}/pool-1")).status == 200
    await kube.patch(f"{kube.leases}/held", {"metadata": {"finalizers": None}})
    await kube.gone(f"{kube.pools}/pool-1")


async def test_orphans_stay_and_forget_their_owner(kube: namespace.Namespace) -> None:
    owner = await kube.add(kube.pools, api.pool())
    await kube.add(kube.leases, namespace.lease("left", ownerReferences=api.owned(owner)))
    await kube.delete(f"{kube.pools}/pool-1", {"propagationPolicy": "Orphan"})
    await kube.gone(f"{kube.pools}/pool-1")
    assert (await kube.get(f"{kube.leases}/left")).at("metadata.ownerReferences") is None
    await kube.add(kube.pools, api.pool())
    assert (await kube.delete(f"{kube.pools}/pool-1?propagationPolicy=Sometimes")).refusal[0] == 422


async def test_a_namespace_goes_when_it_is_empty(kube: namespace.Namespace) -> None:
    other = f"{kube.name}-2"
    created = await kube.add(api.NAMESPACES, {"metadata": {"name": other}})
    assert (created.at("status.phase"), created.at("spec.finalizers")) == ("Active", ["kubernetes"])
    inside = f"/apis/coordination.k8s.io/v1/namespaces/{other}/leases"
    await kube.add(inside, namespace.lease("a"))
    await kube.add(inside, namespace.lease("held", finalizers=["example.com/hold"]))
    going = await kube.delete(f"{api.NAMESPACES}/{other}")
    assert going.at("status.phase") == "Terminating"
    await kube.gone(f"{inside}/a")
    refused = await kube.say("POST", inside, namespace.lease("new"))
    assert (refused.refusal[:2], "being terminated" in refused.refusal[2]) == ((403, "Forbidden"), True)
    await kube.patch(f"{inside}/held", {"metadata": {"finalizers": None}})
    await kube.gone(f"{api.NAMESPACES}/{other}")


async def test_the_first_namespaces_stay(kube: namespace.Namespace) -> None:
    refused = await kube.delete(f"{api.NAMESPACES}/default")
    assert refused.refusal == (403, "Forbidden", 'namespaces "default" is forbidden: this namespace may not be deleted')
