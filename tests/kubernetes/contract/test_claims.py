"""Pools and claims end to end: what users create and observe."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, namespace, programs, samples


@pytest.fixture(scope="module", autouse=True)
def _controllers(backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with programs.controllers(backend.kubeconfig, tmp_path_factory.mktemp("controllers")):
        yield


async def _sample(kube: namespace.Namespace, *names: str) -> None:
    for name in names:
        await kube.put(*samples.valid(name, kube.name))


async def _status(kube: namespace.Namespace, pool: str, **expected: object) -> api.Answer:
    """Wait until the status of a pool has some values; return the pool."""
    answer: api.Answer | None = None

    async def says() -> bool:
        nonlocal answer
        answer = await kube.get(f"{kube.pools}/{pool}")
        return all(answer.at(f"status.{name}") == value for name, value in expected.items())

    await kube.until(says)
    assert answer
    return answer


def _spec(answer: api.Answer) -> api.Json:
    spec = answer.body["spec"]
    assert isinstance(spec, dict)
    return spec


def _condition(answer: api.Answer, kind: str) -> tuple[object, object]:
    listed = answer.at("status.conditions")
    assert isinstance(listed, list)
    return next((condition["status"], condition["reason"]) for condition in listed if condition["type"] == kind)


@pytest.mark.promise(
    "claims-4", "claims-8", "claims-9", "claims-16", "claims-18", "claims-19", "claims-20", "claims-36"
)
async def test_a_claim_gets_what_the_pool_the_claim_and_those_who_came_before_say(kube: namespace.Namespace) -> None:
    await _sample(kube, "01-ippool-two-ranges", "20-ipaddress-external")
    await _sample(kube, "12-ipclaim-requested-address", "11-ipclaim-preallocated", "10-ipclaim")
    names = ("wants-fifteen", "node-9-prov-v4", "workers-0-prov-v4")
    assert await kube.bound(*names) == ["192.168.0.15", "192.168.0.12", "192.168.0.11"]
    await kube.put(*(namespace.claim(f"more-{number}", of="prov-v4") for number in range(3)))
    addresses = await kube.bound(*(f"more-{number}" for number in range(3)))
    assert sorted(addresses) == ["192.168.0.13", "192.168.0.14", "192.168.1.10"]
    near, far = [await kube.get(f"{kube.addresses}/prov-192-168-{suffix}") for suffix in ("0-11", "1-10")]
    assert [near.at(f"spec.{field}") for field in ("prefix", "gateway")] == [25, "192.168.0.1"]
    assert near.at("spec.dnsServers") == ["192.168.0.2", "192.168.0.3"]
    assert [far.at(f"spec.{field}") for field in ("prefix", "gateway")] == [24, "192.168.1.1"]
    assert far.at("spec.dnsServers") == ["192.168.1.2"]


@pytest.mark.promise("claims-29", "claims-30", "claims-31", "claims-34", "claims-44")
async def test_address_and_claim_know_each_other(kube: namespace.Namespace) -> None:
    await _sample(kube, "01-ippool-two-ranges", "20-ipaddress-external", "10-ipclaim")
    await kube.bound("workers-0-prov-v4")
    claim = await kube.get(f"{kube.claims}/workers-0-prov-v4")
    pool = await kube.get(f"{kube.pools}/prov-v4")
    address = await kube.get(f"{kube.addresses}/prov-192-168-0-11")
    expected = samples.expected("ipaddress-for-workers-3", kube.name)
    assert {**_spec(address), "claim": "", "pool": ""} == {**expected["spec"], "claim": "", "pool": ""}
    for key, name in (("pool", "prov-v4"), ("claim", "workers-0-prov-v4")):
        assert (address.at(f"spec.{key}.name"), address.at(f"spec.{key}.namespace")) == (name, kube.name)
    assert address.at("metadata.finalizers") == expected["metadata"]["finalizers"]
    assert (address.at("metadata.labels.team"), address.at("status.ready")) == ("bare-metal", True)
    owners = address.at("metadata.ownerReferences")
    assert isinstance(owners, list)
    assert {owner["uid"] for owner in owners} == {pool.uid, claim.uid}
    for spelling in ("address", "ipAddress"):
        assert claim.at(f"status.{spelling}") == {"name": "prov-192-168-0-11", "namespace": kube.name}
    assert claim.at("metadata.finalizers") == ["ipclaim.ipam.metal3.io"]


@pytest.mark.promise("claims-5", "claims-17", "claims-33")
async def test_ranges_are_as_sparse_or_as_large_as_they_like(kube: namespace.Namespace) -> None:
    await _sample(kube, "02-ippool-single-addresses", "03-ippool-subnet-only", "04-ippool-ipv6")
    await kube.put(api.pool("huge", pools=[{"subnet": "2001:db8:0:2::/64"}], prefix=64))
    await kube.put(*(namespace.claim(f"sparse-{number}", of="public-sparse") for number in range(3)))
    await kube.put(namespace.claim("lab", of="lab-subnet"), namespace.claim("six", of="prov-v6"))
    await kube.put(namespace.claim("node-9-prov-v6", of="prov-v6"), namespace.claim("big", of="huge"))
    await kube.put(namespace.claim("far", of="huge", request="2001:db8:0:2:ffff::1"))
    addresses = await kube.bound(*(f"sparse-{number}" for number in range(3)))
    assert sorted(addresses) == ["198.51.100.9", "203.0.113.44", "203.0.113.7"]
    assert await kube.bound("lab", "six", "node-9-prov-v6", "big", "far") == [
        "10.20.30.1", "2001:db8:0:1::100", "2001:db8:0:1::105", "2001:db8:0:2::1", "2001:db8:0:2:ffff::1",
    ]  # fmt: skip


@pytest.mark.promise("claims-22")
async def test_the_prefix_of_a_pool_begins_the_names_of_its_addresses_and_stays(
    kube: namespace.Namespace, backend: backends.Backend
) -> None:
    await kube.put(namespace.pool(namePrefix="front"), namespace.claim("one"), namespace.claim("two"))
    addresses = await kube.bound("one", "two")
    names = sorted(f"front-{text.replace('.', '-')}" for text in addresses)
    assert sorted((await kube.get(kube.addresses)).names) == names
    if backends.is_embedded(backend):
        changed = await kube.patch(kube.pool, {"spec": {"namePrefix": "back"}})
        assert (changed.status, "spec.namePrefix" in str(changed.at("message"))) == (422, True)
        assert (await kube.get(kube.pool)).at("spec.namePrefix") == "front"


@pytest.mark.promise("claims-56")
async def test_pools_and_claims_of_two_namespaces_do_not_meet_though_their_names_are_the_same(
    kube: namespace.Namespace, entrance: backends.Entrance
) -> None:
    one_address = namespace.pool("pool-1", ("10.0.0.1", "10.0.0.1"))
    async with namespace.temporary(entrance) as other:
        for here in (kube, other):
            await here.put(one_address, namespace.claim("one"))
            assert await here.bound("one") == ["10.0.0.1"]
        await kube.put(namespace.claim("two"))
        await kube.wait_for_message("two", "Exhausted")
        await other.delete(f"{other.claims}/one")
        await other.empty(other.addresses)
        await kube.delete(f"{kube.claims}/one")
        assert await kube.bound("two") == ["10.0.0.1"]
        assert await other.allocated_addresses() == []


async def test_the_ends_of_a_subnet_its_gateway_and_its_dns_servers_are_never_allocated(
    kube: namespace.Namespace,
) -> None:
    await kube.put(api.pool(pools=[{"subnet": "10.0.0.0/29"}], gateway="10.0.0.1", dnsServers=["10.0.0.4"]))
    await kube.put(*(namespace.claim(f"c{number}") for number in range(6)))
    await _status(kube, "pool-1", free=0, used=4, waiting=2)
    assert await kube.allocated_addresses() == ["10.0.0.2", "10.0.0.3", "10.0.0.5", "10.0.0.6"]


@pytest.mark.promise("claims-13", "claims-42")
async def test_a_random_pool_draws_its_addresses(kube: namespace.Namespace) -> None:
    await _sample(kube, "05-ippool-random")
    names = [f"c{number}" for number in range(8)]
    await kube.put(*(namespace.claim(name, of="storage-random") for name in names))
    addresses = await kube.bound(*names)
    assert len(set(addresses)) == 8
    assert set(addresses) != {f"172.20.0.{number}" for number in range(10, 18)}


@pytest.mark.promise("claims-14", "claims-26")
async def test_a_claim_that_waits_says_why_and_is_served_when_another_goes(kube: namespace.Namespace) -> None:
    await _sample(kube, "06-ippool-one-address", "13-ipclaims-for-tiny")
    answer = await _status(kube, "tiny", used=1, waiting=1)
    assert _condition(answer, "Exhausted") == ("True", "NoFreeAddress")
    first, second = ("tiny-a", "tiny-b") if await kube.address_of("tiny-a") else ("tiny-b", "tiny-a")
    await kube.wait_for_message(second, "Exhausted IP Pools")

    async def reported() -> bool:
        events = [api.Answer(200, item) for item in (await kube.get(kube.events)).items]
        return "PoolExhausted" in [event.at("reason") for event in events if event.at("involvedObject.name") == second]

    await kube.until(reported)
    await kube.delete(f"{kube.claims}/{first}")
    assert await kube.bound(second) == ["192.0.2.2"]
    await kube.gone(f"{kube.claims}/{first}")
    assert (await kube.get(f"{kube.claims}/{second}")).at("status.errorMessage") is None
    assert _condition(await _status(kube, "tiny", used=1, waiting=0), "Exhausted")[0] == "True"


async def test_claims_that_wait_are_served_when_the_pool_grows(kube: namespace.Namespace) -> None:
    names = [f"c{number}" for number in range(4)]
    await kube.put(namespace.pool("pool-1", ("10.0.0.1", "10.0.0.2")), *(namespace.claim(name) for name in names))
    await _status(kube, "pool-1", waiting=2)
    more = {"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.2"}, {"start": "10.0.9.1", "end": "10.0.9.2"}]}}
    assert (await kube.patch(kube.pool, more)).status == 200
    assert sorted(await kube.bound(*names)) == ["10.0.0.1", "10.0.0.2", "10.0.9.1", "10.0.9.2"]


async def test_a_claim_for_an_unavailable_address_gets_the_reason_and_delays_no_other(
    kube: namespace.Namespace,
) -> None:
    await kube.put(namespace.pool(preAllocations={"known": "10.0.0.1"}), namespace.claim("first", request="10.0.0.2"))
    await kube.bound("first")
    await kube.put(
        namespace.claim("outside", request="10.9.9.9"), namespace.claim("reserved", request="10.0.0.1"),
        namespace.claim("late", request="10.0.0.2"), namespace.claim("known", request="10.0.0.3"),
        namespace.claim("easy"),
    )  # fmt: skip
    assert await kube.bound("easy") == ["10.0.0.3"]
    await kube.wait_for_message("outside", "Requested IP out of bounds")
    await kube.wait_for_message("reserved", "pre-allocated to claim known")
    await kube.wait_for_message("late", "Requested IP not available")
    await kube.wait_for_message("known", "PreAllocation and requested ip address are conflicting")
    await kube.delete(f"{kube.claims}/first")
    assert await kube.bound("late") == ["10.0.0.2"]


@pytest.mark.promise("claims-7", "claims-37", "claims-38", "claims-41")
async def test_an_address_made_by_hand_is_honoured_in_any_spelling(kube: namespace.Namespace) -> None:
    await kube.put(
        namespace.pool("pool-1", ("2001:db8::1", "2001:db8::3")),
        api.address("by-hand", "2001:DB8:0:0::0001"),
        api.address("for-mine", "2001:db8::2", of="pool-1"),
    )
    await kube.put(namespace.claim("claim-1"), namespace.claim("other"))
    assert await kube.bound("other") == ["2001:db8::3"]
    name = (await kube.get(f"{kube.claims}/claim-1")).at("status.address.name")
    assert name in ("by-hand", "for-mine")
    await kube.put(namespace.claim("waits"))
    await kube.wait_for_message("waits", "Exhausted")
    await kube.delete(f"{kube.claims}/other")
    assert await kube.bound("waits") == ["2001:db8::3"]


@pytest.mark.promise("claims-46")
async def test_a_claim_is_served_with_the_address_of_an_object_that_somebody_deletes(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool("pool-1", ("10.0.0.1", "10.0.0.1")), api.address("by-hand", "10.0.0.1"))
    await _status(kube, "pool-1", used=1, indexes={"claim-1": "10.0.0.1"})
    await kube.put(namespace.claim("waits"))
    await kube.wait_for_message("waits", "Exhausted")
    await kube.delete(f"{kube.addresses}/by-hand")
    assert await kube.bound("waits") == ["10.0.0.1"]
    await _status(kube, "pool-1", indexes={"waits": "10.0.0.1"})


@pytest.mark.promise("claims-23", "claims-24", "claims-25")
async def test_the_status_of_a_pool_says_who_has_what_and_how_much_is_left(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool(preAllocations={"later": "10.0.0.4"}), namespace.claim("one"))
    answer = await _status(kube, "pool-1", used=1, waiting=0)
    assert answer.at("status.indexes") == {"one": "10.0.0.1"}
    assert answer.at("status.allocations") == {"one": "10.0.0.1", "later": "10.0.0.4"}
    assert answer.at("status.addresses") == {"one": "pool-1-10-0-0-1"}
    assert [answer.at(f"status.{name}") for name in ("total", "free")] == [4, 2]
    assert (_condition(answer, "Ready"), _condition(answer, "Exhausted")[0]) == (("True", "Ready"), "False")
    moment = answer.at("status.lastUpdated")
    assert moment
    await kube.patch(kube.pool, {"spec": {"gateway": "10.0.0.200"}, "metadata": {"labels": {"a": "b"}}})
    await kube.put(namespace.claim("two"))
    later = await _status(kube, "pool-1", indexes={"one": "10.0.0.1", "two": "10.0.0.2"})
    assert str(later.at("status.lastUpdated")) >= str(moment)


@pytest.mark.promise("claims-40")
async def test_an_edited_status_is_not_trusted_and_is_corrected(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool(), namespace.claim("one"), namespace.claim("two"))
    addresses = await kube.bound("one", "two")
    await _status(kube, "pool-1", used=2)
    lie = {"indexes": {"three": "10.0.0.4"}, "allocations": None, "used": 0, "free": 4}
    await kube.patch(f"{kube.pool}/status", {"status": lie})
    mine = (await kube.get(f"{kube.claims}/one")).at("status.address.name")
    wrong = {"name": mine, "namespace": kube.name}
    await kube.patch(f"{kube.claims}/two/status", {"status": {"address": wrong, "ipAddress": wrong}})
    await kube.put(namespace.claim("three"))
    assert await kube.bound("three") == ["10.0.0.3"]
    right = dict(zip(("one", "two", "three"), [*addresses, "10.0.0.3"], strict=True))
    await _status(kube, "pool-1", indexes=right, allocations=right, used=3, free=1)

    async def is_reported() -> bool:
        return await kube.bound("one", "two") == addresses

    await kube.until(is_reported)


async def test_an_address_deleted_by_hand_stays_with_its_claim_and_is_made_again_if_it_is_forced(
    kube: namespace.Namespace,
) -> None:
    await kube.put(namespace.pool(), namespace.claim("zero"), namespace.claim("one"))
    _, second = await kube.bound("zero", "one")
    path = f"{kube.addresses}/pool-1-{second.replace('.', '-')}"
    old = await kube.delete(path)
    assert old.at("metadata.deletionTimestamp")
    await kube.delete(f"{kube.claims}/zero")
    await kube.gone(f"{kube.claims}/zero")
    assert (await kube.get(path)).uid == old.uid
    await kube.patch(path, {"metadata": {"finalizers": None}})

    async def made_again() -> bool:
        return (await kube.get(path)).uid not in (old.uid, "None")

    await kube.until(made_again)
    assert await kube.bound("one") == [second]
    assert await kube.allocated_addresses() == [second]


async def test_claims_that_go_as_they_come_leave_nothing(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool())

    async def flash(name: str, seconds: float) -> None:
        await kube.put(namespace.claim(name))
        await asyncio.sleep(seconds)
        answer = await kube.delete(f"{kube.claims}/{name}")
        assert answer.status == 200, answer

    for turn in range(3):
        # Some are deleted while they get their finalizer: a real server lets some of those go at once.
        await asyncio.gather(*(flash(f"c{turn}-{number}", number % 8 * 0.004) for number in range(24)))
        await kube.empty(kube.claims, kube.addresses)
    await kube.put(*(namespace.claim(f"d{number}") for number in range(4)))
    await kube.bound(*(f"d{number}" for number in range(4)))


async def test_a_claim_keeps_its_address_while_somebody_else_holds_it(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool("pool-1", ("10.0.0.1", "10.0.0.1")))
    await kube.put(namespace.claim("one", finalizers=["example.com/hold"]))
    await kube.bound("one")
    await kube.delete(f"{kube.claims}/one")
    await kube.put(namespace.claim("two"))
    await kube.wait_for_message("two", "Exhausted")
    finalizers = (await kube.get(f"{kube.claims}/one")).at("metadata.finalizers")
    assert isinstance(finalizers, list)
    await kube.patch(f"{kube.claims}/one", {"metadata": {"finalizers": finalizers[1:]}})
    assert await kube.bound("two") == ["10.0.0.1"]


async def test_a_pool_in_use_goes_when_the_last_of_its_addresses_does(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool(), namespace.claim("one"))
    await kube.bound("one")
    await _status(kube, "pool-1", used=1)
    assert (await kube.delete(kube.pool)).at("metadata.deletionTimestamp")
    await kube.put(namespace.claim("late"))
    await kube.wait_for_message("late", "is being deleted")
    assert await kube.bound("one") == ["10.0.0.1"]
    await kube.delete(f"{kube.claims}/one")
    await kube.gone(kube.pool)
    await kube.wait_for_message("late", "does not exist")
    await kube.put(namespace.pool())
    await kube.bound("late")


async def test_a_claim_on_a_pool_that_is_not_here_says_so_and_is_served_when_it_is(kube: namespace.Namespace) -> None:
    far = namespace.claim("far")
    far["spec"] = {"pool": {"name": "pool-1", "namespace": "default"}}
    await kube.put(namespace.claim("early"), far)
    await kube.wait_for_message("early", "IPPool pool-1 does not exist")
    await kube.put(namespace.pool())
    assert await kube.bound("early") == ["10.0.0.1"]
    await kube.wait_for_message("far", "is not in the namespace of the claim")


@pytest.mark.promise("claims-28", "claims-39")
async def test_pools_that_make_one_name_or_number_give_nothing_twice(kube: namespace.Namespace) -> None:
    numbers, letters = ("1.2.3.4", "1.2.3.5"), ("1:2:3:4::", "1:2:3:4::9")
    await kube.put(
        namespace.pool("one", numbers, namePrefix="a"), namespace.pool("two", numbers, namePrefix="a"),
        namespace.pool("six", letters, namePrefix="a"),
    )  # fmt: skip
    await kube.put(namespace.claim("c1", of="one"), namespace.claim("c2", of="two"))
    assert {*await kube.bound("c1", "c2")} == {*numbers}
    await kube.put(namespace.claim("c6", of="six"))  # had it come first, its name would have left c2 without a number
    (sixth,) = await kube.bound("c6")
    assert sixth.startswith("1:2:3:4::")
    names = (await kube.get(kube.addresses)).names
    assert len(names) == 3
    assert all(name.startswith("a-1-2-3-") for name in names)


@pytest.mark.promise("claims-15", "claims-27")
async def test_a_pool_waits_for_its_cluster_and_then_belongs_to_it(kube: namespace.Namespace) -> None:
    await _sample(kube, "07-ippool-with-cluster")
    await kube.put(namespace.claim("one", of="edge-1-bmv4"))
    await kube.wait_for_message("one", "Cluster edge-1 does not exist")
    await _sample(kube, "50-cluster")
    assert await kube.bound("one") == ["192.168.111.100"]
    uid = (await kube.get(f"{kube.clusters}/edge-1")).uid

    async def owned() -> bool:
        pool = await kube.get(f"{kube.pools}/edge-1-bmv4")
        labels = pool.at("metadata.labels") or {}
        assert isinstance(labels, dict)
        owner = pool.at("metadata.ownerReferences.0.uid") if labels else None
        return (owner, labels.get("cluster.x-k8s.io/cluster-name")) == (uid, "edge-1")

    await kube.until(owned)


@pytest.mark.promise("claims-47")
async def test_nothing_is_done_for_what_is_paused(kube: namespace.Namespace) -> None:
    paused = {"cluster.x-k8s.io/paused": ""}
    still = namespace.pool("still", ("10.0.1.1", "10.0.1.4"))
    still["metadata"] = {"name": "still", "annotations": paused}
    await kube.put(namespace.cluster("edge", paused=True), namespace.pool(), still)
    await kube.put(namespace.pool("of-edge", ("10.0.2.1", "10.0.2.4"), clusterName="edge"))
    await kube.put(namespace.claim("mine", annotations=paused), namespace.claim("on-still", of="still"))
    await kube.put(namespace.claim("on-edge", of="of-edge"), namespace.capi_claim("for-edge", clusterName="edge"))
    await kube.put(namespace.claim("free"))
    await kube.bound("free")
    await _status(kube, "pool-1", used=1)
    assert await kube.allocated_addresses() == ["10.0.0.1"]
    await kube.patch(f"{kube.clusters}/edge", {"spec": {"paused": False}})
    going = {"metadata": {"annotations": None}}
    await kube.patch(f"{kube.pools}/still", going)
    await kube.patch(f"{kube.claims}/mine", going)
    await kube.bound("mine", "on-still", "on-edge")
    await kube.bound("for-edge", kind="IPAddressClaim")


async def test_claims_of_cluster_api_are_served_beside_ours_and_those_of_others_left_alone(
    kube: namespace.Namespace,
) -> None:
    await _sample(kube, "01-ippool-two-ranges", "20-ipaddress-external", "50-cluster", "32-capi-claim-foreign-pool")
    await _sample(kube, "31-capi-ipaddressclaim-v1beta1", "30-capi-ipaddressclaim-v1beta2")
    assert await kube.bound("capi-claim-0", "capi-claim-1", kind="IPAddressClaim") == ["192.168.0.11", "192.168.1.11"]
    await kube.put(namespace.claim("capi-claim-0", of="prov-v4"))
    assert await kube.bound("capi-claim-0") == ["192.168.0.13"]
    claim = await kube.get(f"{kube.capi_claims}/capi-claim-0")
    address = await kube.get(f"{kube.capi_addresses}/prov-192-168-0-11")
    (sample,) = samples.valid("33-capi-ipaddress-v1beta2", kube.name)
    assert address.body["spec"] == sample["spec"]
    assert _condition(claim, "Ready")[0] == "True"
    owners = address.at("metadata.ownerReferences")
    assert isinstance(owners, list)
    mine = next(owner for owner in owners if owner["uid"] == claim.uid)
    assert (mine.get("controller"), mine.get("blockOwnerDeletion")) == (True, True)
    foreign = await kube.get(f"{kube.capi_claims}/not-ours")
    assert (foreign.at("status.addressRef"), foreign.at("metadata.finalizers")) == (None, None)
    for name in ("capi-claim-0", "capi-claim-1"):
        await kube.delete(f"{kube.capi_claims}/{name}")
    await kube.empty(kube.capi_addresses)


async def test_names_of_253_characters_are_bound(kube: namespace.Namespace) -> None:
    long = "a" * 253
    await kube.put(api.pool(long, namePrefix="p"), namespace.claim(long, of=long))
    assert await kube.bound(long) == ["10.0.0.1"]


async def test_unknown_fields_are_passed_over(kube: namespace.Namespace) -> None:
    claim = namespace.claim("one")
    claim["spec"] = {"pool": {"name": "pool-1", "colour": "blue"}, "size": 3}
    await kube.put(namespace.pool(colour="blue"), claim)
    assert await kube.bound("one") == ["10.0.0.1"]
    assert (await kube.get(kube.pool)).at("spec.colour") is None


async def test_a_pool_that_shrinks_takes_nothing_away(kube: namespace.Namespace) -> None:
    await kube.put(namespace.pool(), namespace.claim("one", request="10.0.0.4"))
    await kube.bound("one")
    small = {"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.1"}]}}
    # It is refused where there is admission.
    answer = await kube.patch(kube.pool, small)
    assert answer.status == 200 or "is in use" in answer.refusal[2]
    await kube.put(namespace.claim("two"))
    assert await kube.bound("one", "two") == ["10.0.0.4", "10.0.0.1"]


@pytest.mark.promise("claims-10")
async def test_after_a_move_every_claim_has_its_address_and_nothing_is_given_twice(kube: namespace.Namespace) -> None:
    await kube.put(namespace.cluster("edge"), namespace.pool(clusterName="edge"))
    await kube.put(namespace.claim("gone"), namespace.claim("one"))
    await kube.bound("gone", "one")
    await kube.put(namespace.claim("two"), namespace.capi_claim("three", clusterName="edge"))
    before = [*await kube.bound("one", "two"), *await kube.bound("three", kind="IPAddressClaim")]
    await kube.delete(f"{kube.claims}/gone")
    await kube.gone(f"{kube.claims}/gone")
    await _status(kube, "pool-1", used=3)
    await _moved(kube)
    await kube.put(namespace.claim("new"))
    await kube.patch(f"{kube.clusters}/edge", {"spec": {"paused": False}})
    await kube.bound("new")
    assert [*await kube.bound("one", "two"), *await kube.bound("three", kind="IPAddressClaim")] == before
    assert len(set(await kube.allocated_addresses())) == len(await kube.allocated_addresses()) == 4


async def _moved(kube: namespace.Namespace) -> None:
    """Move as clusterctl does: pause, delete all, recreate owners first, without status, with other UIDs."""
    await kube.patch(f"{kube.clusters}/edge", {"spec": {"paused": True}})
    collections = (kube.clusters, kube.pools, kube.claims, kube.capi_claims, kube.addresses, kube.capi_addresses)
    kept = {path: (await kube.get(path)).items for path in collections}
    for path in reversed(collections):
        for body in kept[path]:
            name = api.Answer(200, body).at("metadata.name")
            await kube.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
            await kube.delete(f"{path}/{name}")
    await kube.empty(*collections)
    uids: dict[object, str] = {}
    for path in collections:
        for body in kept[path]:
            old = api.Answer(200, body)
            owners = old.at("metadata.ownerReferences") or []
            assert isinstance(owners, list)
            head = {
                "name": old.at("metadata.name"),
                "labels": old.at("metadata.labels"),
                "finalizers": old.at("metadata.finalizers"),
                "ownerReferences": [{**owner, "uid": uids[owner["uid"]]} for owner in owners],
            }
            created = await kube.add(
                path, {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": head}
            )
            uids[old.uid] = created.uid
