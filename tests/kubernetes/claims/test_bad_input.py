"""Bad objects: edited by hand, malformed, of another namespace, or contradicting each other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubernetes.claims import server

from gantry import errors
from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import admission

TEXTS = [
    "10.0.0.1",
    "10.0.0.0/29",
    "2001:db8::/64",
    "pool-1",
    "a",
    "x",
    "pool-1-10-0-0-1",
    "random",
    "2026-01-01T00:00:00Z",
]
KEYS = ["a", "start", "end", "subnet", "prefix", "name", "namespace", "kind", "type", "status", "uid"]
PATHS = [
    "spec",
    "spec.pools",
    "spec.namePrefix",
    "spec.clusterName",
    "spec.preAllocations",
    "spec.excludedAddresses",
    "spec.gateway",
    "spec.dnsServers",
    "spec.prefix",
    "spec.allocationStrategy",
    "spec.pool",
    "spec.pool.name",
    "spec.poolRef",
    "spec.poolRef.kind",
    "spec.claim",
    "spec.claim.name",
    "spec.address",
    "spec.paused",
    "status",
    "status.address",
    "status.address.name",
    "status.addressRef.name",
    "status.conditions",
    "status.indexes",
    "status.total",
    "metadata.annotations",
    "metadata.labels",
    "metadata.finalizers",
    "metadata.ownerReferences",
]
POOL = ipam.pool_ref(server.SITE, "pool-1")


def begin(*bodies: schema.Json) -> tuple[server.Server, server.Controller]:
    api = server.Server()
    for body in bodies:
        api.create(body)
    controller = server.Controller(api)
    controller.settle()
    return api, controller


def claim(name: str) -> meta.Ref:
    return meta.Ref(ipam.GROUP, "IPClaim", server.SITE, name)


def address(name: str, *, group: str = ipam.GROUP) -> meta.Ref:
    return meta.Ref(group, "IPAddress", server.SITE, name)


def lie(api: server.Server, name: str, claimed: str) -> None:
    """Write an address into the status of a claim, as a user."""
    api.patch(claim(name), {"status": {"address": {"name": claimed}}}, subresource="status")


def test_a_status_with_the_address_of_another_claim_keeps_no_claim_waiting() -> None:
    api, _ = begin(server.pool(), server.claim("a"))
    api.create(server.claim("b"))
    lie(api, "b", "pool-1-10-0-0-1")
    server.Controller(api).settle()
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == ("10.0.0.1", "10.0.0.2")


def test_a_status_that_names_the_address_of_another_claim_is_corrected_when_there_is_nothing_free() -> None:
    api, _ = begin(server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]), server.claim("a"))
    api.create(server.claim("b"))
    lie(api, "b", "pool-1-10-0-0-1")
    server.Controller(api).settle()
    assert server.error(api, "b").startswith("Exhausted IP Pools")
    assert server.address_of_claim(api, "b") == ""


def test_a_status_with_the_address_of_another_provider_keeps_no_claim_waiting() -> None:
    foreign: schema.Json = {
        "apiVersion": f"{capi.GROUP}/v1beta2",
        "kind": "IPAddress",
        "metadata": {"name": "theirs", "namespace": server.SITE},
        "spec": {
            "address": "10.9.9.9",
            "prefix": 24,
            "claimRef": {"name": "x"},
            "poolRef": {"name": "pool-1", "kind": "InClusterIPPool", "apiGroup": ipam.GROUP},
        },
    }
    api, _ = begin(server.pool(), foreign, server.capi_claim("b", annotations={meta.PAUSED: ""}))
    ref = meta.Ref(capi.GROUP, "IPAddressClaim", server.SITE, "b")
    api.patch(ref, {"status": {"addressRef": {"name": "theirs"}}}, subresource="status")
    api.patch(ref, {"metadata": {"annotations": None}})
    server.Controller(api).settle()
    assert server.address_of_claim(api, "b", kind="IPAddressClaim") == "10.0.0.1"


def test_an_address_counts_in_its_own_namespace_alone_whatever_it_says() -> None:
    stranger = server.address("evil", "10.0.0.1", claim="a")
    stranger["metadata"] = {"name": "evil", "namespace": "site-b"}
    stranger["spec"] = {
        "address": "10.0.0.1",
        "pool": {"name": "pool-1", "namespace": server.SITE},
        "claim": {"name": "a", "namespace": server.SITE},
    }
    api, controller = begin(server.pool(), stranger, server.claim("a"))
    assert server.address_of_claim(api, "a") == "10.0.0.1"
    assert server.struct(api.get(claim("a"))).status.address.name == "pool-1-10-0-0-1"  # type: ignore[attr-defined]
    api.delete(claim("a"))
    api.delete(POOL)
    controller.settle()
    assert POOL not in api.objects, "an object of another namespace does not hold the pool"


def test_a_name_of_the_claims_own_object_in_another_pool_is_passed_over() -> None:
    # Two pools whose prefixes make one name: p-1 with 2.3.4.5 of IPv4, and what somebody made by hand for the other.
    mine = server.address("pool-1-10-0-0-1", "10.0.0.1", claim="a", of="elsewhere")
    api, _ = begin(server.pool(), mine, server.claim("a"))
    assert server.address_of_claim(api, "a") == "10.0.0.2"


def test_an_object_created_by_hand_without_a_valid_address_is_not_allocated() -> None:
    nonsense = server.address("x", "ten", claim="a")
    nonsense["metadata"] = {"name": "x", "namespace": server.SITE, "finalizers": [ipam.ADDRESS_FINALIZER]}
    api, _ = begin(server.pool(), nonsense, server.claim("a"), server.claim("b"))
    assert {server.address_of_claim(api, "a"), server.address_of_claim(api, "b")} == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.parametrize(
    "spec",
    [
        {"pools": [{"subnet": "10.0.0.0/" + "9" * 5000}]},
        {"pools": [{"subnet": "10.0.0.0/33"}]},
        {"pools": [{"start": "10.0.0.1%eth0", "end": "10.0.0.4"}]},
        {"preAllocations": {"a": "1" * 5000}},
        {"excludedAddresses": ["10.0.0.0/" + "9" * 5000]},
        {"excludedAddresses": ["\x00"]},
        {"gateway": "::ffff:10.0.0.256"},
        {"prefix": 10**30, "pools": [{"start": "x"}]},
    ],
)
def test_a_pool_that_a_server_without_our_schema_let_through_tells_its_claims(spec: schema.Json) -> None:
    pool = server.pool()
    pool["spec"] = {"namePrefix": "pool-1", "pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}], **spec}
    api, _ = begin(pool, server.claim("a"))
    assert "cannot be used" in server.error(api, "a")


def test_a_pool_with_numbers_that_make_no_sense_goes_on_giving_addresses() -> None:
    api, _ = begin(server.pool(prefix=-7), server.claim("a"))
    assert server.address_of_claim(api, "a") == "10.0.0.1"


def test_a_cluster_whose_name_no_label_can_have_does_not_keep_a_pool_from_its_finalizer() -> None:
    name = "c" * 64
    api, _ = begin(server.pool(clusterName=name), server.cluster(name), server.claim("a"))
    marks = server.struct(api.get(POOL)).metadata
    assert ipam.POOL_FINALIZER in marks.finalizers
    assert [owner.name for owner in marks.owner_references] == [name]
    assert meta.CLUSTER_LABEL not in marks.labels
    assert server.address_of_claim(api, "a") == "10.0.0.1"


def test_what_is_allocated_in_advance_and_held_by_another_is_waited_for() -> None:
    api, controller = begin(server.pool(), server.claim("other"))
    api.patch(POOL, {"spec": {"preAllocations": {"a": "10.0.0.1"}}})
    api.create(server.claim("a"))
    controller.settle()
    assert server.error(api, "a").startswith("Pre-allocated IP not available: 10.0.0.1 is in use by")
    writes = api.writes
    server.Controller(api).settle()
    assert api.writes == writes
    api.delete(claim("other"))
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"


def test_an_address_far_inside_an_ipv6_subnet_is_found_at_once() -> None:
    far = "2001:db8::ffff:ffff:ffff:fff0"
    api, _ = begin(
        server.pool(pools=[{"subnet": "2001:db8::/64"}], preAllocations={"b": "2001:db8::8000:0:0:1"}),
        server.claim("a", annotations={ipam.REQUEST_ANNOTATION: far.upper()}),
        server.claim("b"),
    )
    assert (server.address_of_claim(api, "a"), server.address_of_claim(api, "b")) == (far, "2001:db8::8000:0:0:1")


def test_claims_of_names_of_253_characters_are_served_in_every_kind() -> None:
    name = "n" * 253
    api, _ = begin(server.pool(), server.claim(name), server.capi_claim(name))
    assert {server.address_of_claim(api, name), server.address_of_claim(api, name, kind="IPAddressClaim")} == {
        "10.0.0.1",
        "10.0.0.2",
    }


def test_a_pool_that_shrank_under_an_address_leaves_it_to_its_claim_and_gives_it_to_no_other() -> None:
    api, controller = begin(server.pool(), server.claim("a"))
    api.patch(POOL, {"spec": {"pools": [{"start": "10.0.0.2", "end": "10.0.0.2"}]}})
    controller.settle()
    assert server.address_of_claim(api, "a") == "10.0.0.1"
    pool = server.struct(api.get(POOL))
    assert isinstance(pool, ipam.IPPool)
    assert (pool.status.indexes, pool.status.used, pool.status.free) == ({"a": "10.0.0.1"}, 0, 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pool": {"name": "q"}}, "spec.pool"),
        ({"claim": {"name": "d"}}, "spec.claim"),
        ({"claim": {"name": "c", "namespace": "elsewhere"}}, "spec.claim"),
        ({"address": "10.0.0.2"}, "spec.address"),
    ],
)
def test_an_address_keeps_what_it_is_and_whose(change: schema.Json, field: str) -> None:
    body = server.address("x", "10.0.0.1", claim="c", of="p")
    spec = body["spec"]
    assert isinstance(spec, dict)
    refused = admission.review(
        server.struct({**body, "spec": {**spec, **change}}), server.struct(body), in_use=lambda _: ()
    )
    assert [cause.field for cause in refused] == [field]


def test_pools_that_never_were_or_have_gone_are_forgotten_with_their_claims() -> None:
    api, controller = begin(server.pool(), server.pool("pool-2", namePrefix="pool-1"))
    for number in range(50):
        api.create(server.claim("a", f"nowhere-{number}"))
        controller.settle()
        api.delete(claim("a"))
        controller.settle()
    assert len(controller.known) == 2
    for name in ("pool-1", "pool-2"):
        api.delete(ipam.pool_ref(server.SITE, name))
    controller.settle()
    assert len(controller.known) == 0


def test_a_pool_that_made_no_sense_and_is_deleted_does_not_exist() -> None:
    api, controller = begin(server.pool(pools=[{"start": "x"}]), server.claim("a"))
    api.delete(POOL)
    controller.settle()
    assert "does not exist" in server.error(api, "a")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**40) | st.text(max_size=6) | st.sampled_from(TEXTS),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inside, max_size=3),
    max_leaves=6,
)


@st.composite
def edited(draw: st.DrawFn) -> list[schema.Json]:
    """Return a pool, claims and addresses as a server without our definitions may have them."""
    bodies = [
        server.pool(),
        server.pool("pool-2", namePrefix="pool-1"),
        server.claim("a"),
        server.claim("b", "pool-2"),
        server.capi_claim("a"),
        server.address("pool-1-10-0-0-1", "10.0.0.1", claim="a"),
        server.address("x", "10.0.0.2", claim="b", of="pool-2"),
        server.cluster("edge"),
    ]
    changes = st.tuples(st.sampled_from(bodies), st.sampled_from(PATHS), VALUES)
    for body, path, value in draw(st.lists(changes, min_size=1, max_size=6)):
        *way, last = path.split(".")
        inside = body
        for step in way:
            child = inside.setdefault(step, {})
            if not isinstance(child, dict):
                break
            inside = child
        inside[last] = value
    return bodies


def readable(body: schema.Json) -> bool:
    try:
        server.struct(body)
    except errors.InvalidError:
        return False
    return True


@given(edited())
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_objects_of_any_shape_end_no_controller_and_let_none_spin(bodies: list[schema.Json]) -> None:
    api = server.Server()
    for body in filter(readable, bodies):
        ref = server.struct(body).ref
        api.create(body)
        if "status" in body:
            api.objects[ref] = {**api.objects[ref], "status": body["status"]}
    server.Controller(api).settle()
    # What the first has learnt of names that are taken the second learns when it needs one of them.
    server.Controller(api).settle()
    writes = api.writes
    again = server.Controller(api)
    again.settle()
    assert api.writes == writes, "a controller that begins with everything done writes"
    for ref, body in api.objects.items():
        claim = again.known.claim(ref)
        if claim and not again.known.is_paused(claim):
            assert any(word in str(body.get("status")) for word in ("'name'", "errorMessage", "'message'")), body
