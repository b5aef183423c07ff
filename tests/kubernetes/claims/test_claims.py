"""Claims on a fake API server: allocation, status and release."""

import datetime

import msgspec
import pytest
from tests.kubernetes.claims import server

from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import actions, cache, pool_space, reconcile_claim

USER = "example.org/user"


def begin(*bodies: schema.Json) -> tuple[server.Server, server.Controller]:
    api = server.Server()
    for body in bodies:
        api.create(body)
    controller = server.Controller(api)
    controller.settle()
    return api, controller


def ref(name: str, kind: str = "IPClaim") -> meta.Ref:
    group = capi.GROUP if kind == "IPAddressClaim" else ipam.GROUP
    return meta.Ref(group, kind, server.SITE, name)


def noted(text: str) -> schema.Json:
    return {ipam.REQUEST_ANNOTATION: text}


def ready(api: server.Server, name: str) -> meta.Condition:
    claim = server.struct(api.get(ref(name, "IPAddressClaim")))
    assert isinstance(claim, capi.IPAddressClaim)
    return claim.ready


@pytest.mark.promise("claims-4", "claims-5", "claims-16")
def test_ranges_that_do_not_touch_and_single_addresses_are_used_in_their_order() -> None:
    sparse = [{"start": "203.0.113.7", "end": "203.0.113.7"}, {"start": "198.51.100.9", "end": "198.51.100.10"}]
    api, _ = begin(server.pool(pools=sparse), *(server.claim(name) for name in "abcd"))
    assert [server.address_of_claim(api, name) for name in "abcd"] == [
        "203.0.113.7",
        "198.51.100.9",
        "198.51.100.10",
        "",
    ]


@pytest.mark.promise("claims-18", "claims-19", "claims-20", "claims-30")
def test_an_address_says_what_its_range_says_and_else_what_its_pool_says() -> None:
    ranges = [
        {"start": "10.0.0.2", "end": "10.0.0.2", "prefix": 25, "gateway": "10.0.0.1", "dnsServers": ["10.0.0.53"]},
        {"start": "10.0.1.2", "end": "10.0.1.2"},
    ]
    pool = server.pool(pools=ranges, prefix=24, gateway="10.0.1.1", dnsServers=["10.0.1.53"])
    api, _ = begin(pool, server.claim("a"), server.claim("b"))
    specs = [api.get(ref(f"pool-1-10-0-{net}-2", "IPAddress"))["spec"] for net in (0, 1)]
    assert specs == [
        {
            "address": "10.0.0.2",
            "claim": {"name": "a", "namespace": server.SITE},
            "pool": {"name": "pool-1", "namespace": server.SITE},
            "prefix": 25,
            "gateway": "10.0.0.1",
            "dnsServers": ["10.0.0.53"],
        },
        {
            "address": "10.0.1.2",
            "claim": {"name": "b", "namespace": server.SITE},
            "pool": {"name": "pool-1", "namespace": server.SITE},
            "prefix": 24,
            "gateway": "10.0.1.1",
            "dnsServers": ["10.0.1.53"],
        },
    ]


@pytest.mark.promise("claims-29", "claims-31", "claims-34")
def test_an_address_is_owned_by_pool_and_claim_is_ready_and_known_to_the_claim() -> None:
    api, _ = begin(server.pool(), server.claim("a", labels={"team": "metal"}))
    address = server.struct(api.get(ref("pool-1-10-0-0-1", "IPAddress")))
    assert isinstance(address, ipam.IPAddress)
    owners = [(owner.kind, owner.name, owner.uid) for owner in address.metadata.owner_references]
    uids = [server.struct(api.get(reference)).metadata.uid for reference in (ref("pool-1", "IPPool"), ref("a"))]
    assert owners == [("IPPool", "pool-1", uids[0]), ("IPClaim", "a", uids[1])]
    assert address.metadata.labels == {"team": "metal"}
    assert address.metadata.finalizers == (ipam.ADDRESS_FINALIZER,)
    assert address.status.ready
    where = {"name": "pool-1-10-0-0-1", "namespace": server.SITE}
    ready = {"type": "Ready", "status": "True", "reason": "Allocated", "message": "10.0.0.1 is allocated"}
    condition = {**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert api.get(ref("a"))["status"] == {"address": where, "ipAddress": where, "conditions": [condition]}


@pytest.mark.promise("claims-17", "claims-20")
def test_a_subnet_gives_the_bounds_and_its_ends_gateway_and_dns_server_are_never_given() -> None:
    subnet = [{"subnet": "10.0.0.0/29", "gateway": "10.0.0.6", "dnsServers": ["10.0.0.2"]}]
    api, _ = begin(server.pool(pools=subnet), *(server.claim(name) for name in "abcd"))
    assert [server.address_of_claim(api, name) for name in "abcd"] == ["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5"]
    assert server.struct(api.get(ref("pool-1-10-0-0-1", "IPAddress"))).to_json()["spec"]["prefix"] == 29  # type: ignore[index]


@pytest.mark.promise("claims-17")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"start": "10.0.0.5", "subnet": "10.0.0.0/29"}, ["10.0.0.5", "10.0.0.6", ""]),
        ({"end": "10.0.0.2", "subnet": "10.0.0.0/29"}, ["10.0.0.1", "10.0.0.2", ""]),
        ({"subnet": "10.0.0.4/29"}, ["10.0.0.5", "10.0.0.6", ""]),
        ({"start": "10.0.0.255", "end": "10.0.1.1", "prefix": 24}, ["10.0.1.1", "", ""]),
        ({"start": "10.0.0.254", "end": "10.0.1.1"}, ["10.0.0.254", "10.0.0.255", "10.0.1.0"]),
        ({"end": "10.0.0.2"}, ["", "", ""]),
        ({"start": "255.255.255.254"}, ["255.255.255.254", "255.255.255.255", ""]),
        ({"start": "10.0.0.1", "subnet": "10.1.0.0/29"}, ["10.1.0.1", "10.1.0.2", "10.1.0.3"]),
        ({"start": "10.1.0.5", "end": "10.1.0.9", "subnet": "10.1.0.0/29"}, ["10.1.0.5", "10.1.0.6", ""]),
        ({"subnet": "2001:db8::/64"}, ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
    ],
)
def test_missing_bounds_of_a_range_are_computed(spec: schema.Json, expected: list[str]) -> None:
    api, _ = begin(server.pool(pools=[spec]), *(server.claim(name) for name in "abc"))
    assert [server.address_of_claim(api, name) for name in "abc"] == expected


@pytest.mark.promise("claims-9", "claims-21", "claims-36")
def test_a_preallocated_address_goes_only_to_the_claim_of_that_name() -> None:
    v6 = [{"start": "2001:db8::1", "end": "2001:db8::3"}]
    ahead = {"b": "2001:db8:0:0:0:0:0:0001"}
    api, _ = begin(server.pool(pools=v6, preAllocations=ahead), *(server.claim(name) for name in "abcd"))
    assert [server.address_of_claim(api, name) for name in "abcd"] == ["2001:db8::2", "2001:db8::1", "2001:db8::3", ""]


@pytest.mark.promise("claims-21", "claims-36")
def test_a_preallocated_address_may_lie_outside_the_ranges_in_the_subnet_of_one_whose_settings_it_has() -> None:
    spec = {"start": "10.0.0.2", "end": "10.0.0.3", "subnet": "10.0.0.0/24", "gateway": "10.0.0.1", "prefix": 25}
    other = {"start": "10.1.0.2", "end": "10.1.0.2", "subnet": "10.1.0.0/24"}
    ahead = {"b": "10.0.0.9", "c": "10.1.0.9", "d": "10.2.0.9"}
    pool = server.pool(pools=[spec, other], preAllocations=ahead, prefix=24)
    api, controller = begin(pool, *(server.claim(name) for name in "abcd"))
    assert [server.address_of_claim(api, name) for name in "abcd"] == ["10.0.0.2", "10.0.0.9", "10.1.0.9", ""]
    specs = [api.get(ref(f"pool-1-10-{net}-0-9", "IPAddress"))["spec"] for net in (0, 1)]
    assert [(each["prefix"], each.get("gateway")) for each in specs] == [(25, "10.0.0.1"), (24, None)]  # type: ignore[index, attr-defined]
    assert "no range or subnet of the pool contains 10.2.0.9" in server.error(api, "d")
    api.create(server.claim("wish", annotations=noted("10.0.0.8")))
    controller.settle()
    assert "Requested IP out of bounds" in server.error(api, "wish")


def test_a_claim_gets_its_requested_address_or_the_reason_of_the_refusal() -> None:
    pool = server.pool(preAllocations={"z": "10.0.0.4"}, gateway="10.0.0.3")
    wishes = {
        "a": "10.0.0.2",
        "b": "10.0.0.2",
        "c": "10.0.9.9",
        "d": "10.0.0.4",
        "e": "10.0.0.3",
        "f": "ten",
        "z": "10.0.0.1",
    }
    claims = [server.claim(name, annotations=noted(text)) for name, text in wishes.items()]
    api, controller = begin(pool, *claims)
    assert server.address_of_claim(api, "a") == "10.0.0.2"
    answer = {name: server.error(api, name) for name in "bcdefz"}
    assert "in use by IPAddress site-a/pool-1-10-0-0-2" in answer["b"]
    assert "out of bounds" in answer["c"]
    assert "pre-allocated to claim z" in answer["d"]
    assert "gateway" in answer["e"]
    assert 'Invalid ipAddress annotation "ten"' in answer["f"]
    assert "conflicting" in answer["z"]
    api.delete(ref("a"))
    controller.settle()
    assert server.address_of_claim(api, "b") == "10.0.0.2"


@pytest.mark.promise("claims-26")
def test_a_claim_that_finds_nothing_says_so_and_is_served_by_itself_when_it_can_be() -> None:
    api, controller = begin(server.pool(), *(server.claim(name) for name in "abcdef"))
    assert server.error(api, "e").startswith("Exhausted IP Pools")
    writes = api.writes
    controller.settle()
    assert api.writes == writes
    api.delete(ref("a"))
    controller.settle()
    assert (server.address_of_claim(api, "e"), server.error(api, "e")) == ("10.0.0.1", "")
    assert server.error(api, "f").startswith("Exhausted IP Pools")
    more = [{"start": "10.0.0.1", "end": "10.0.0.4"}, {"start": "10.0.0.9", "end": "10.0.0.9"}]
    api.patch(ref("pool-1", "IPPool"), {"spec": {"pools": more}})
    controller.settle()
    assert server.address_of_claim(api, "f") == "10.0.0.9"


def test_a_failed_claim_does_not_hold_up_the_others() -> None:
    api, _ = begin(server.pool(), server.claim("a", annotations=noted("10.9.9.9")), server.claim("b"))
    assert server.address_of_claim(api, "b") == "10.0.0.1"
    assert server.error(api, "a")


@pytest.mark.promise("claims-8", "claims-37", "claims-38", "claims-41")
def test_an_address_made_by_hand_is_honoured_in_any_spelling_and_goes_to_the_claim_it_names() -> None:
    v6 = [{"start": "2001:db8::1", "end": "2001:db8::2"}]
    by_hand = server.address("router", "2001:DB8:0:0::1", claim="legacy")
    api, controller = begin(server.pool(pools=v6), by_hand, server.claim("a"), server.claim("b"))
    assert [server.address_of_claim(api, name) for name in "ab"] == ["2001:db8::2", ""]
    api.create(server.claim("legacy"))
    controller.settle()
    assert server.address_of_claim(api, "legacy") == "2001:DB8:0:0::1"
    api.delete(ref("legacy"))
    controller.settle()
    assert ref("router", "IPAddress") in api.objects
    api.delete(ref("router", "IPAddress"))
    controller.settle()
    assert server.address_of_claim(api, "b") == "2001:db8::1"


@pytest.mark.promise("claims-38")
def test_a_claim_does_not_get_the_address_that_it_asks_for_while_an_object_has_it() -> None:
    by_hand = server.address("router", "10.0.0.1", claim="legacy")
    api, controller = begin(server.pool(), by_hand, server.claim("a", annotations=noted("10.0.0.1")))
    assert server.error(api, "a").startswith("Requested IP not available: 10.0.0.1 is in use by")
    assert server.address_of_claim(api, "a") == ""
    api.delete(ref("router", "IPAddress"))
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"


@pytest.mark.promise("claims-7")
def test_an_address_in_use_elsewhere_is_ruled_out_by_an_object_or_by_the_pool() -> None:
    api, controller = begin(server.pool(excludedAddresses=["10.0.0.1-10.0.0.2"]), server.claim("a"))
    assert server.address_of_claim(api, "a") == "10.0.0.3"
    api.create(server.address("printer", "10.0.0.4", claim="nobody"))
    api.create(server.claim("b"))
    controller.settle()
    assert server.error(api, "b").startswith("Exhausted IP Pools")
    api.patch(ref("pool-1", "IPPool"), {"spec": {"excludedAddresses": ["10.0.0.3"]}})
    controller.settle()
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == ("10.0.0.3", "10.0.0.1")


@pytest.mark.promise("claims-13", "claims-42")
def test_a_random_pool_draws_from_all_ranges_and_forgets_none() -> None:
    ranges = [{"start": "10.0.0.1", "end": "10.0.0.8"}, {"start": "10.0.1.1", "end": "10.0.1.8"}]
    names = [f"c{number}" for number in range(17)]
    api, _ = begin(server.pool(pools=ranges, allocationStrategy="random"), *map(server.claim, names))
    got = [server.address_of_claim(api, name) for name in names[:16]]
    assert len(set(got)) == 16
    assert got != sorted(got)
    assert any(text.startswith("10.0.1.") for text in got[:8])
    assert server.error(api, names[16]).startswith("Exhausted IP Pools")


@pytest.mark.promise("claims-13", "claims-42")
def test_controllers_with_random_order_draw_from_every_pool_but_not_from_a_range_without_an_end() -> None:
    ranges = [{"start": "10.0.0.1", "end": "10.0.0.8"}, {"subnet": "10.0.1.0/28"}]
    api, names = server.Server(), [f"c{number}" for number in range(23)]
    for body in (server.pool(pools=ranges, allocationStrategy="sequential"), *map(server.claim, names)):
        api.create(body)
    for body in (server.pool("open", pools=[{"start": "10.9.0.1"}]), server.claim("first", "open")):
        api.create(body)
    server.Controller(api, known=cache.Cache(random_order=True)).settle()
    got = [server.address_of_claim(api, name) for name in names[:22]]
    assert len(set(got)) == 22
    assert any(text.startswith("10.0.1.") for text in got[:8])
    assert server.error(api, names[22]).startswith("Exhausted IP Pools")
    assert server.address_of_claim(api, "first") == "10.9.0.1"


def test_a_random_pool_may_be_a_whole_ipv6_subnet() -> None:
    api, _ = begin(server.pool(pools=[{"subnet": "2001:db8::/64"}], allocationStrategy="random"), server.claim("a"))
    assert len(server.address_of_claim(api, "a")) > len("2001:db8::ffff:ffff")


@pytest.mark.promise("claims-14")
def test_a_released_address_is_given_again() -> None:
    api, controller = begin(server.pool(), server.claim("a"), server.claim("b"))
    api.delete(ref("a"))
    controller.settle()
    api.create(server.claim("c"))
    controller.settle()
    assert server.address_of_claim(api, "c") == "10.0.0.1"


@pytest.mark.promise("claims-28", "claims-39")
def test_of_two_controllers_that_pick_one_address_the_second_picks_again() -> None:
    api = server.Server()
    api.create(server.pool())
    first, second = server.Controller(api), server.Controller(api)
    first.settle()
    second.see()
    api.create(server.claim("a"))
    first.settle()
    # The second has not seen what the first has done.
    second.work |= second.known.put(server.struct(api.create(server.claim("b"))))
    second.run()
    assert server.address_of_claim(api, "b") in ("", "10.0.0.2")
    second.settle()
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == ("10.0.0.1", "10.0.0.2")


@pytest.mark.promise("claims-44", "claims-45")
def test_whatever_request_was_the_last_the_next_controller_adopts_what_it_finds() -> None:
    done = 0
    for last in range(20):
        api = server.Server()
        for body in (server.pool(), server.claim("a"), server.capi_claim("b")):
            api.create(body)
        steps = server.Controller(api).steps()
        for _ in range(last):
            next(steps, None)
        done += next(steps, api) is api
        server.Controller(api).settle()
        assert server.address_of_claim(api, "a") == "10.0.0.1"
        assert server.address_of_claim(api, "b", kind="IPAddressClaim") == "10.0.0.2"
        assert sum(item.kind == "IPAddress" for item in api.objects) == 2
    assert done, "every request was the last one once"


@pytest.mark.promise("claims-44")
@pytest.mark.parametrize(("body", "kind"), [(server.claim("a"), "IPClaim"), (server.capi_claim("a"), "IPAddressClaim")])
def test_the_status_of_a_claim_names_an_address_object_only_after_its_creation(body: schema.Json, kind: str) -> None:
    api, _ = begin(server.pool(), body)
    writes = [(written.kind, bool(stored and stored.get("status"))) for written, stored in api.log]
    created = next(index for index, (written, _) in enumerate(writes) if written == "IPAddress")
    assert writes.index((kind, True)) > created


@pytest.mark.promise("claims-40")
def test_an_edited_status_is_not_trusted() -> None:
    api, _ = begin(server.pool(), server.claim("a"))
    lie = {"indexes": {"b": "10.0.0.1", "a": "10.0.0.4"}, "free": "many"}
    api.patch(ref("pool-1", "IPPool"), {"status": lie}, subresource="status")
    api.patch(
        ref("a"), {"status": {"address": {"name": "pool-1-10-0-0-3"}, "errorMessage": "no"}}, subresource="status"
    )
    api.create(server.claim("b"))
    server.Controller(api).settle()
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == ("10.0.0.1", "10.0.0.2")
    pool = server.struct(api.get(ref("pool-1", "IPPool")))
    assert isinstance(pool, ipam.IPPool)
    assert pool.status.indexes == {"a": "10.0.0.1", "b": "10.0.0.2"}


def test_a_status_that_names_the_address_of_another_claim_is_put_right() -> None:
    api, _ = begin(server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.2"}]), *map(server.claim, "abc"))
    server.Controller(api).settle()
    lie: schema.Json = {"status": {"address": {"name": "pool-1-10-0-0-1"}, "ipAddress": {"name": "pool-1-10-0-0-1"}}}
    for name in "bc":
        api.patch(ref(name), lie, subresource="status")
    server.Controller(api).settle()
    assert [server.address_of_claim(api, name) for name in "abc"] == ["10.0.0.1", "10.0.0.2", ""]
    assert "Exhausted" in server.error(api, "c")


@pytest.mark.promise("claims-10")
def test_after_a_move_every_claim_finds_its_address_though_uids_and_status_are_new() -> None:
    api, _ = begin(server.pool(), *(server.claim(name) for name in "ab"), server.capi_claim("c"))
    source = dict(api.objects)
    api.delete(ref("a"))
    target = server.Server()
    target.create(server.cluster("edge", paused=True))
    target.log.extend([(ref("x"), None)] * 100)
    order = ["IPPool", "IPClaim", "IPAddressClaim", "IPAddress"]
    controller = server.Controller(target)
    for copied in sorted(source, key=lambda reference: order.index(reference.kind)):
        body = {key: value for key, value in source[copied].items() if key != "status"}
        marks = server.metadata(body)
        refreshed = [
            {**owner, "uid": server.metadata(target.objects[reference])["uid"]}
            for owner in marks.get("ownerReferences", [])  # type: ignore[attr-defined]
            for reference in target.objects
            if (reference.kind, reference.name) == (owner["kind"], owner["name"])
        ]
        if copied.kind == "IPPool":
            body["spec"] = {**body["spec"], "clusterName": "edge"}  # type: ignore[dict-item]
        target.create({**body, "metadata": {**marks, "ownerReferences": refreshed}})
        controller.settle()
    assert target.writes == len(source) + 1, "nothing is written while the cluster is paused"
    target.create(server.claim("new"))
    target.patch(capi.cluster_ref(server.SITE, "edge"), {"spec": {"paused": False}})
    controller.settle()
    assert [server.address_of_claim(target, name) for name in ("a", "b", "new")] == ["10.0.0.1", "10.0.0.2", "10.0.0.4"]
    assert server.address_of_claim(target, "c", kind="IPAddressClaim") == "10.0.0.3"


def test_claims_with_owners_of_an_earlier_life_refresh_them() -> None:
    api, _ = begin(server.pool(), server.claim("a"))
    api.patch(ref("pool-1-10-0-0-1", "IPAddress"), {"metadata": {"ownerReferences": []}})
    server.Controller(api).settle()
    address = server.struct(api.get(ref("pool-1-10-0-0-1", "IPAddress")))
    assert [owner.kind for owner in address.metadata.owner_references] == ["IPPool", "IPClaim"]


@pytest.mark.promise("claims-47")
@pytest.mark.parametrize("whose", ["claim", "claim's cluster", "pool", "pool's cluster"])
def test_nothing_is_done_for_a_claim_that_is_paused_by_anybody(whose: str) -> None:
    paused = {meta.PAUSED: "true"}
    pool = server.pool(**({"clusterName": "edge"} if whose == "pool's cluster" else {}))
    claim = server.capi_claim("a")
    if whose == "claim":
        claim = server.capi_claim("a", annotations=paused)
    elif whose == "pool":
        pool["metadata"] = {**server.metadata(pool), "annotations": paused}
    elif whose == "claim's cluster":
        claim = server.capi_claim("a", labels={meta.CLUSTER_LABEL: "edge"})
    api, controller = begin(server.cluster("edge", paused=whose.endswith("cluster")), pool, claim)
    assert server.address_of_claim(api, "a", kind="IPAddressClaim") == ""
    assert not server.metadata(api.get(ref("a", "IPAddressClaim"))).get("finalizers")
    for reference in (ref("a", "IPAddressClaim"), ref("pool-1", "IPPool")):
        api.patch(reference, {"metadata": {"annotations": None}})
    api.patch(capi.cluster_ref(server.SITE, "edge"), {"spec": {"paused": False}})
    controller.settle()
    assert server.address_of_claim(api, "a", kind="IPAddressClaim") == "10.0.0.1"


def test_both_kinds_of_claims_share_the_numbers_even_under_one_name() -> None:
    api, _ = begin(server.pool(), server.claim("a"), server.capi_claim("a"))
    assert {server.address_of_claim(api, "a"), server.address_of_claim(api, "a", kind="IPAddressClaim")} == {
        "10.0.0.1",
        "10.0.0.2",
    }
    pool = server.struct(api.get(ref("pool-1", "IPPool")))
    assert isinstance(pool, ipam.IPPool)
    assert len(pool.status.indexes) == 2
    assert ready(api, "a").status == "True"


def test_another_providers_claim_of_the_same_pool_name_is_left_alone() -> None:
    api, controller = begin(server.pool(), server.capi_claim("a", kind="InClusterIPPool"))
    assert "status" not in api.get(ref("a", "IPAddressClaim"))
    assert not controller.reports


def test_conditions_of_others_on_a_claim_are_kept() -> None:
    other = {"type": "Synced", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    api = server.Server()
    for body in (server.pool(), server.capi_claim("a")):
        api.create(body)
    api.patch(ref("a", "IPAddressClaim"), {"status": {"conditions": [other]}}, subresource="status")
    server.Controller(api).settle()
    claim = server.struct(api.get(ref("a", "IPAddressClaim")))
    assert isinstance(claim, capi.IPAddressClaim)
    assert [condition.type for condition in claim.status.conditions] == ["Synced", "Ready"]


def test_an_address_is_kept_while_somebody_else_holds_the_deleted_claim() -> None:
    api, controller = begin(server.pool(), server.claim("a"))
    kept_finalizers = [*server.struct(api.get(ref("a"))).metadata.finalizers, USER, "foregroundDeletion"]
    api.patch(ref("a"), {"metadata": {"finalizers": kept_finalizers}})
    api.delete(ref("a"))
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"
    api.patch(ref("a"), {"metadata": {"finalizers": [address for address in kept_finalizers if address != USER]}})
    controller.settle()
    assert ref("pool-1-10-0-0-1", "IPAddress") not in api.objects
    assert server.struct(api.get(ref("a"))).metadata.finalizers == ("foregroundDeletion",)


def test_an_address_deleted_by_hand_while_its_claim_lives_stays_with_it() -> None:
    api, controller = begin(server.pool(), server.claim("a"))
    api.delete(ref("pool-1-10-0-0-1", "IPAddress"))
    api.create(server.claim("b"))
    controller.settle()
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == ("10.0.0.1", "10.0.0.2")
    assert any(report.reason == "InUse" for report in controller.reports)
    api.delete(ref("a"))
    controller.settle()
    assert ref("pool-1-10-0-0-1", "IPAddress") not in api.objects


def test_an_address_taken_away_by_force_is_made_again_with_the_same_number() -> None:
    api, controller = begin(server.pool(), server.claim("a"), server.claim("b"))
    api.delete(ref("b"))
    controller.settle()
    api.delete(ref("pool-1-10-0-0-1", "IPAddress"))
    api.patch(ref("pool-1-10-0-0-1", "IPAddress"), {"metadata": {"finalizers": []}})
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"


@pytest.mark.parametrize("struck", [False, True], ids=["", "owner struck out by a garbage collector"])
def test_the_address_of_a_claim_deleted_while_no_controller_ran_is_collected_later(struck: bool) -> None:
    api, _ = begin(server.pool(), server.claim("a"))
    api.delete(ref("a"))
    api.patch(ref("a"), {"metadata": {"finalizers": []}})
    server.Controller(api).settle()
    if struck:
        references = server.struct(api.get(ref("pool-1-10-0-0-1", "IPAddress"))).metadata.owner_references[:1]
        owners = [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            for owner in references
        ]
        api.patch(ref("pool-1-10-0-0-1", "IPAddress"), {"metadata": {"ownerReferences": owners}})
    assert ref("pool-1-10-0-0-1", "IPAddress") in api.objects
    api.now += datetime.timedelta(seconds=reconcile_claim.GRACE_SECONDS)
    server.Controller(api).settle()
    assert ref("pool-1-10-0-0-1", "IPAddress") not in api.objects


@pytest.mark.parametrize("steps", range(4))
def test_a_claim_that_goes_in_spite_of_its_finalizer_leaves_nothing(steps: int) -> None:
    api, controller = begin(server.pool())
    api.create(server.claim("a"))
    controller.see()
    sending = controller.steps()
    while not isinstance(controller.sending, actions.Create):
        next(sending)
    for _ in range(steps):
        next(sending, None)
    api.patch(ref("a"), {"metadata": {"finalizers": []}})
    api.delete(ref("a"))
    if steps % 2:
        controller.see()
    for _ in sending:
        pass
    controller.settle()
    assert [item.kind for item in api.objects] == ["IPPool"]


def test_what_a_claim_that_was_seen_to_go_leaves_behind_waits_for_its_pool() -> None:
    api, controller = begin(server.pool(), server.claim("a"))
    for name, kind in (("pool-1", "IPPool"), ("a", "IPClaim")):
        api.patch(ref(name, kind), {"metadata": {"finalizers": []}})
        api.delete(ref(name, kind))
        controller.settle()
    assert [item.kind for item in api.objects] == ["IPAddress"]


def test_a_claim_created_and_deleted_at_once_leaves_nothing() -> None:
    api, controller = begin(server.pool())
    for number in range(6):
        api.create(server.claim("a"))
        for _ in range(number):
            controller.see()
            next(controller.steps(), None)
        api.delete(ref("a"))
        controller.settle()
        assert not [item for item in api.objects if item.kind != "IPPool"]


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (server.claim("a", of="nowhere"), "IPPool nowhere does not exist"),
        (
            {**server.claim("a"), "spec": {"pool": {"name": "pool-1", "namespace": "site-b"}}},
            "is not in the namespace of the claim",
        ),
    ],
)
def test_a_claim_that_cannot_be_bound_gets_the_reason(claim: schema.Json, reason: str) -> None:
    elsewhere = server.pool()
    elsewhere["metadata"] = {"name": "pool-1", "namespace": "site-b"}
    api, controller = begin(elsewhere, claim)
    assert reason in server.error(api, "a")
    assert [report.warning for report in controller.reports if report.about.kind == "IPClaim"] == [True]


def test_an_ip_claim_says_whether_it_is_ready() -> None:
    """``kubectl wait --for=condition=Ready ipclaim/a`` waits for it; other programs' conditions stay."""
    api, controller = begin(server.claim("a"))

    def conditions() -> list[tuple[str, str, str, str]]:
        claim = server.struct(api.get(ref("a")))
        assert isinstance(claim, ipam.IPClaim)
        return [(each.type, each.status, each.reason, each.message) for each in claim.status.conditions]

    assert conditions() == [("Ready", "False", "PoolNotReady", "IPPool pool-1 does not exist in namespace site-a")]
    other = {"type": "Synced", "status": "True", "reason": "Other", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    claim = server.struct(api.get(ref("a")))
    assert isinstance(claim, ipam.IPClaim)
    own = [msgspec.to_builtins(condition) for condition in claim.status.conditions]
    api.patch(ref("a"), {"status": {"conditions": [other, *own]}}, subresource="status")
    api.create(server.pool())
    controller.settle()
    assert conditions() == [
        ("Synced", "True", "Other", ""),
        ("Ready", "True", "Allocated", "10.0.0.1 is allocated"),
    ]


def test_a_claim_is_served_when_its_pool_appears() -> None:
    api, controller = begin(server.claim("a"))
    api.create(server.pool())
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"


def test_pools_of_one_prefix_share_their_numbers_and_others_do_not() -> None:
    pools = [server.pool(), server.pool("pool-2", namePrefix="pool-1"), server.pool("pool-3")]
    claims = [server.claim("a"), server.claim("b", "pool-2"), server.claim("c", "pool-3")]
    api, _ = begin(*pools, *claims)
    assert [server.address_of_claim(api, name) for name in "abc"] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]


def test_a_name_that_another_object_has_is_passed_over() -> None:
    squatter = server.address("pool-1-10-0-0-1", "172.16.0.1", claim="x", of="elsewhere")
    api, _ = begin(server.pool(), squatter, server.claim("a"))
    assert server.address_of_claim(api, "a") == "10.0.0.2"


def test_a_name_that_would_be_too_long_is_said() -> None:
    api, _ = begin(server.pool(namePrefix="p" * 246), server.claim("a"), server.claim("n" * 253))
    assert "longer than 253" in server.error(api, "a")
    assert "longer than 253" in server.error(api, "n" * 253)


def test_a_deleted_pool_binds_no_claim_and_is_removed_when_it_is_empty() -> None:
    api, controller = begin(server.pool(), server.claim("a"))
    api.delete(ref("pool-1", "IPPool"))
    api.create(server.claim("b"))
    controller.settle()
    assert "being deleted" in server.error(api, "b")
    api.delete(ref("a"))
    controller.settle()
    assert ref("pool-1", "IPPool") not in api.objects
    assert "does not exist" in server.error(api, "b")


def test_a_pool_whose_spec_makes_no_sense_says_so_and_recovers() -> None:
    api, controller = begin(server.pool(pools=[{"start": "10.0.0.9", "end": "10.0.0.1"}]), server.claim("a"))
    assert "before start IP" in server.error(api, "a")
    api.patch(ref("pool-1", "IPPool"), {"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}})
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"


def test_an_address_that_the_cluster_allocated_to_another_is_reported_with_its_owner() -> None:
    claim = server.struct(server.claim("one"))
    assert isinstance(claim, ipam.IPClaim)
    number = pool_space.parse("10.0.0.7")
    assert number
    event = reconcile_claim.conflict_event(claim, number, meta.Ref("", "Instance", "", "web1"))
    assert (event.about, event.warning, event.reason) == (claim.ref, True, "AddressConflict")
    assert "10.0.0.7" in event.message
    assert "web1" in event.message
