from tests.kubernetes.apiserver import api

POOL = f"{api.POOLS}/pool-1"
CAPI = "/apis/ipam.cluster.x-k8s.io"


def capi(kind: str, version: str, **spec: object) -> api.Json:
    head = {"apiVersion": f"ipam.cluster.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "c"}}
    return {**head, "spec": spec}


async def test_a_pool_does_not_shrink_below_what_is_in_use(kube: api.Api) -> None:
    await kube.add(api.POOLS, api.pool())
    await kube.add(api.ADDRESSES, api.address("pool-1-10-0-0-8", "10.0.0.8"))
    small = {"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.5"}]}}
    refused = await kube.patch(POOL, small)
    assert (refused.refusal[:2], refused.fields) == ((422, "Invalid"), ["spec.pools"])
    assert "is in use" in refused.refusal[2]
    await kube.restart()
    assert (await kube.patch(POOL, small)).status == 422
    await kube.delete(f"{api.ADDRESSES}/pool-1-10-0-0-8")
    assert (await kube.patch(POOL, small)).status == 200


async def test_what_may_not_change_is_kept(kube: api.Api) -> None:
    await kube.add(api.POOLS, api.pool())
    await kube.add(api.CLAIMS, api.claim("c"))
    await kube.add(api.ADDRESSES, api.address("a", "10.0.0.8"))
    for path, spec, field in (
        (POOL, {"namePrefix": "other"}, "spec.namePrefix"),
        (POOL, {"allocationStrategy": "random"}, "spec.allocationStrategy"),
        (f"{api.CLAIMS}/c", {"pool": {"name": "other"}}, "spec.pool"),
        (f"{api.ADDRESSES}/a", {"address": "10.0.0.9"}, "spec.address"),
    ):
        refused = await kube.patch(path, {"spec": spec})
        assert (refused.refusal[0], refused.fields) == (422, [field])


async def test_an_address_of_cluster_api_is_from_the_pool_that_its_claim_asks(kube: api.Api) -> None:
    ref: api.Json = {"name": "pool-1", "kind": "IPPool", "apiGroup": "ipam.metal3.io"}
    claims, addresses = (f"{CAPI}/v1beta2/namespaces/default/{name}" for name in ("ipaddressclaims", "ipaddresses"))
    await kube.add(claims, capi("IPAddressClaim", "v1beta2", poolRef=ref))
    spec: api.Json = {"claimRef": {"name": "c"}, "address": "10.0.0.1", "prefix": 24}
    address = capi("IPAddress", "v1beta2", **spec, poolRef={**ref, "name": "pool-2"})
    refused = await kube.say("POST", addresses, address)
    assert (refused.refusal[:2], refused.fields) == ((422, "Invalid"), ["spec.poolRef"])
    await kube.add(addresses, capi("IPAddress", "v1beta2", **spec, poolRef=ref))


async def test_what_one_version_may_leave_away_is_there_in_the_other(kube: api.Api) -> None:
    plain = f"{CAPI}/%s/namespaces/default/ipaddressclaims"
    ref = {"name": "pool-1", "kind": "IPPool"}
    await kube.add(plain % "v1beta1", capi("IPAddressClaim", "v1beta1", poolRef=ref))
    body = (await kube.get(f"{plain % 'v1beta2'}/c")).body
    assert body["spec"] == {"poolRef": {**ref, "apiGroup": "ipam.metal3.io"}}
    marked = await kube.patch(f"{plain % 'v1beta2'}/c", {"metadata": {"finalizers": ["example.com/held"]}})
    assert (marked.status, marked.body["spec"]) == (200, body["spec"])
    other = {**capi("IPAddressClaim", "v1beta2", poolRef=ref), "metadata": {"name": "d"}}
    refused = await kube.say("POST", plain % "v1beta2", other)
    assert (refused.status, refused.fields) == (422, ["spec.poolRef.apiGroup"])


async def test_pools_that_give_out_the_same_are_warned_of(kube: api.Api) -> None:
    await kube.add(api.POOLS, api.pool())
    warned = await kube.add(api.POOLS, api.pool("pool-2"))
    assert "ranges overlap with those of IPPool pool-1" in warned.headers["Warning"]
