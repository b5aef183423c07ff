"""Admission rules and their messages, and which layer rejects an invalid object."""

import pytest
from tests.kubernetes.claims import server

from gantry.kubernetes.api import capi, data, definitions, ipam, meta, schema
from gantry.kubernetes.claims import actions, admission

ONE_RANGE = [{"start": "10.0.0.1", "end": "10.0.0.9"}]
METAL3 = ipam.API_VERSION


def body(kind: str, spec: schema.Json, *, group: str = METAL3, notes: dict[str, str] | None = None) -> schema.Json:
    marks: schema.Json = {"name": "bad", "namespace": server.SITE, "annotations": notes or {}}
    return {"apiVersion": group, "kind": kind, "metadata": marks, "spec": spec}


def pool(**spec: object) -> schema.Json:
    return body("IPPool", {"namePrefix": "p", **spec})


def causes(spec: schema.Json) -> tuple[str, list[str]]:
    """Return the layer that rejects an object, and the message."""
    group, _, version = str(spec["apiVersion"]).rpartition("/")
    definition = definitions.by_kind(group, str(spec["kind"]))
    assert definition is not None
    by_schema = list(definitions.check(definition, version, spec))
    if by_schema:
        return "schema", [str(cause) for cause in by_schema]
    refused = admission.review(definitions.read(spec), None, in_use=lambda _: ())
    return "admission", [str(cause) for cause in refused]


CAPI = f"{capi.GROUP}/v1beta2"
DATA = f"{data.GROUP}/v1beta2"
LABEL: schema.Json = {"metaData": {"fromLabels": [{"key": "a", "object": "pod", "label": "x"}]}}
NO_POOL: schema.Json = {"networkData": {"networks": {"ipv4": [{"id": "a", "link": "b"}]}}}
BAD = [
    (body("IPPool", {"pools": ONE_RANGE}), "schema", "spec.namePrefix: Required"),
    (pool(namePrefix="", pools=ONE_RANGE), "schema", "spec.namePrefix in body should be at least 1"),
    (pool(pools=[{"start": "10.0.0.300", "end": "10.0.0.9"}]), "schema", "spec.pools[0].start in body should match"),
    (pool(prefix=129), "schema", "spec.prefix in body should be less than or equal to 128"),
    (pool(prefix=-1), "schema", "spec.prefix in body should be greater than or equal to 0"),
    (pool(prefix="24"), "schema", "spec.prefix in body must be of type integer"),
    (pool(allocationStrategy="roundrobin"), "schema", 'supported values: "sequential", "random"'),
    (
        pool(pools=[{"start": "10.0.0.9", "end": "10.0.0.1"}]),
        "admission",
        "end IP 10.0.0.1 is before start IP 10.0.0.9",
    ),
    (pool(pools=[{"prefix": 24}]), "admission", "pool entry must specify at least one of start, end, or subnet"),
    (pool(pools=ONE_RANGE, preAllocations={"c1": "10.0.9.9"}), "admission", "out of bounds of the pools given"),
    (
        pool(pools=ONE_RANGE, preAllocations={"c1": "10.0.0.5", "c2": "10.0.0.5"}),
        "admission",
        'already pre-allocated to claim "c1"',
    ),
    (
        pool(pools=[{"subnet": "2001:db8::/64"}], preAllocations={"c1": "2001:db8::5", "c2": "2001:DB8:0:0:0:0:0:5"}),
        "admission",
        'already pre-allocated to claim "c1"',
    ),
    (
        pool(allocationStrategy="random", pools=[{"start": "10.0.0.1"}]),
        "admission",
        'cannot be used with allocationStrategy "random"',
    ),
    (pool(pools=ONE_RANGE, excludedAddresses=["ten"]), "admission", "spec.excludedAddresses[0]"),
    (pool(pools=[{"start": "10.0.0.1", "end": "2001:db8::1"}]), "admission", "mixes address families"),
    (pool(namePrefix="UPPER", pools=ONE_RANGE), "admission", "is not a valid beginning of the name"),
    (pool(namePrefix="p" * 250, pools=ONE_RANGE), "admission", "is not a valid beginning of the name"),
    (body("IPClaim", {}), "schema", "spec.pool: Required"),
    (
        body("IPClaim", {"pool": {"namespace": server.SITE}}),
        "admission",
        "spec.pool.name: Invalid value: cannot be empty",
    ),
    (
        body("IPClaim", {"pool": {"name": "p"}}, notes={"ipAddress": "999.1.1.1"}),
        "admission",
        'metadata.annotations.ipAddress: Invalid value: "999.1.1.1": is not a valid IP address',
    ),
    (body("IPAddress", {"pool": {"name": "p"}, "claim": {"name": "c"}}), "schema", "spec.address: Required"),
    (
        body("IPAddress", {"address": "1.2.3", "pool": {"name": "p"}, "claim": {"name": "c"}}),
        "schema",
        "spec.address in body should match",
    ),
    (
        body("IPAddress", {"address": "10.0.0.1", "pool": {"name": "p"}, "claim": {"namespace": "n"}}),
        "admission",
        "spec.claim.name: Invalid value: cannot be empty",
    ),
    (
        body("IPAddressClaim", {"poolRef": {"name": "p", "apiGroup": ipam.GROUP}}, group=CAPI),
        "schema",
        "spec.poolRef.kind: Required",
    ),
    (
        body(
            "IPAddress",
            {
                "address": "10.0.0.1",
                "prefix": 33,
                "claimRef": {"name": "c"},
                "poolRef": {"name": "p", "kind": "IPPool", "apiGroup": ipam.GROUP},
            },
            group=CAPI,
        ),
        "admission",
        "prefix is too large for an IPv4 address",
    ),
    (body("Metal3DataTemplate", LABEL, group=DATA), "schema", "spec.metaData.fromLabels[0].object: Unsupported value"),
    (
        body("Metal3DataTemplate", NO_POOL, group=DATA),
        "admission",
        "fromPoolRef needs to contain a reference to an IPPool",
    ),
]


@pytest.mark.parametrize(("spec", "layer", "reason"), BAD)
def test_invalid_objects_are_refused_by_their_layer_with_the_reason(spec: schema.Json, layer: str, reason: str) -> None:
    refused_by, reasons = causes(spec)
    assert refused_by == layer
    assert any(reason in text for text in reasons), reasons


@pytest.mark.parametrize(
    "spec",
    [
        pool(
            pools=[*ONE_RANGE, {"subnet": "2001:db8::/64"}],
            allocationStrategy="random",
            preAllocations={"c": "2001:db8::9"},
        ),
        pool(),
        body("IPClaim", {"pool": {"name": "p"}}, notes={"ipAddress": ""}),
    ],
)
def test_valid_objects_are_not_refused(spec: schema.Json) -> None:
    assert causes(spec) == ("admission", [])


def changed(old: schema.Json, new: schema.Json, *addresses: actions.Address) -> list[str]:
    refused = admission.review(definitions.read(new), definitions.read(old), in_use=lambda _: addresses)
    return [str(cause) for cause in refused]


@pytest.mark.promise("claims-22")
def test_prefix_and_strategy_of_a_pool_stay() -> None:
    assert changed(pool(), pool(namePrefix="q")) == ['spec.namePrefix: Invalid value: "q": cannot be modified']
    assert "cannot be modified after creation" in changed(pool(), pool(allocationStrategy="random"))[0]
    assert not changed(pool(), pool(allocationStrategy="sequential"))


def test_a_pool_does_not_shrink_under_an_address_in_use() -> None:
    address = server.struct(server.address("x", "10.0.0.9", claim="c", of="bad"))
    assert isinstance(address, ipam.IPAddress)
    smaller = pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.8"}])
    assert "is in use by IPClaim site-a/c but out of bounds" in changed(pool(pools=ONE_RANGE), smaller, address)[0]
    assert not changed(pool(pools=ONE_RANGE), smaller)


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ({"start": "10.0.0.4"}, "255.255.255.255", "10.0.0.3"),
        ({"end": "10.0.0.4"}, "0.0.0.0", "10.0.0.5"),
        ({"subnet": "10.0.0.6/29"}, "10.0.0.0", "10.0.0.8"),
        ({"subnet": "10.0.0.0/29", "end": "10.0.0.4"}, "10.0.0.4", "10.0.0.5"),
        ({"subnet": "10.0.0.0/29", "start": "10.0.0.4"}, "10.0.0.7", "10.0.0.3"),
        ({"subnet": "2001:db8::/64"}, "2001:db8::ffff", "10.0.0.1"),
    ],
)
def test_the_bounds_of_a_range_are_checked(spec: schema.Json, inside: str, outside: str) -> None:
    for text, is_inside in ((inside, True), (outside, False)):
        address = server.struct(server.address("x", text, claim="c", of="bad"))
        assert isinstance(address, ipam.IPAddress)
        reasons = changed(pool(), pool(pools=[spec]), address)
        assert [f"{text}" in reason and "out of bounds" in reason for reason in reasons] == (
            [] if is_inside else [True]
        )


@pytest.mark.promise("claims-21")
def test_an_address_is_preallocated_within_the_subnets_of_the_pool_and_worth_a_warning_outside_its_ranges() -> None:
    spec = {"start": "10.0.0.2", "end": "10.0.0.3", "subnet": "10.0.0.0/29"}

    def with_preallocated(text: str) -> schema.Json:
        return pool(pools=[spec], preAllocations={"c": text})

    def warned(text: str) -> list[str]:
        return admission.warnings(meta.read(with_preallocated(text), ipam.IPPool), [])

    for text in ("10.0.0.0", "10.0.0.7"):
        assert causes(with_preallocated(text)) == ("admission", [])
        (warning,) = warned(text)
        assert text in warning
        assert "in none of its ranges" in warning
    assert causes(with_preallocated("10.0.0.3")) == ("admission", [])
    assert warned("10.0.0.3") == []
    for text in ("10.0.0.8", "9.255.255.255", "2001:db8::1"):
        (reason,) = causes(with_preallocated(text))[1]
        assert "out of bounds of the pools given" in reason


def test_a_pool_can_change_while_an_address_that_is_preallocated_outside_its_ranges_is_in_use() -> None:
    address = server.struct(server.address("x", "10.0.0.5", claim="c", of="bad"))
    assert isinstance(address, ipam.IPAddress)
    spec = {"start": "10.0.0.2", "end": "10.0.0.3", "subnet": "10.0.0.0/29"}
    old = pool(pools=[spec], preAllocations={"c": "10.0.0.5"})
    larger = pool(pools=[{**spec, "end": "10.0.0.4"}], preAllocations={"c": "10.0.0.5"})
    assert changed(old, larger, address) == []
    (reason,) = changed(old, pool(pools=[spec]), address)
    assert "is in use by IPClaim site-a/c but out of bounds" in reason


def test_a_prefix_length_that_no_address_of_a_range_can_have_is_worth_a_warning() -> None:
    v4: schema.Json = {"start": "10.0.0.2", "end": "10.0.0.3"}
    v6: schema.Json = {"start": "2001:db8::2", "end": "2001:db8::3"}

    def warned(*pools: schema.Json, prefix: int) -> list[str]:
        return admission.warnings(meta.read(pool(pools=[*pools], prefix=prefix), ipam.IPPool), [])

    assert warned(v4, v4, v6, prefix=33) == ["spec.prefix: 33 is not a prefix length of IPv4 (0 to 32)"]
    assert warned(v6, {**v4, "prefix": 24}, prefix=64) == []
    assert warned({**v6, "prefix": -1}, v4, prefix=32) == [
        "spec.pools[0].prefix: -1 is not a prefix length of IPv6 (0 to 128)"
    ]
    assert warned(v4, v6, prefix=0) == []


def test_a_pool_that_is_being_deleted_gets_no_warnings_about_its_spec() -> None:
    going = {**pool(preAllocations={"c": "no address"}, pools=[{}])}
    going["metadata"] = {**server.metadata(going), "deletionTimestamp": meta.stamp(server.BEGIN)}
    assert admission.warnings(meta.read(going, ipam.IPPool), []) == []


def test_a_refusal_names_some_of_the_addresses_in_use_and_not_thousands() -> None:
    taken = [server.struct(server.address(f"x{number}", "10.0.0.9", claim="c", of="bad")) for number in range(500)]
    addresses = [address for address in taken if isinstance(address, ipam.IPAddress)]
    smaller = pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.8"}])
    assert 1 <= len(changed(pool(pools=ONE_RANGE), smaller, *addresses)) <= 100


def test_references_and_addresses_stay() -> None:
    claim, other = (body("IPClaim", {"pool": {"name": name}}) for name in ("p", "q"))
    assert "spec.pool" in changed(claim, other)[0]
    assert not changed(claim, body("IPClaim", {"pool": {"name": "p", "uid": "new"}, "owner": {"name": "x"}}))
    refs = {"pool": {"name": "p"}, "claim": {"name": "c"}}
    old = body("IPAddress", {"address": "10.0.0.1", **refs})
    assert "spec.address" in changed(old, body("IPAddress", {"address": "10.0.0.2", **refs}))[0]
    claim_spec = {"poolRef": {"name": "p", "kind": "IPPool", "apiGroup": ipam.GROUP}}
    first, second = (
        body("IPAddressClaim", {**claim_spec, **more}, group=CAPI) for more in ({}, {"clusterName": "edge"})
    )
    assert "immutable" in changed(first, second)[0]


def test_an_address_of_cluster_api_is_from_the_pool_that_its_claim_asks() -> None:
    def claim_body(**more: str) -> schema.Json:
        return {"poolRef": {"name": "p", "kind": "IPPool", "apiGroup": ipam.GROUP, **more}}

    def reasons(claim: schema.Json | None, address: schema.Json) -> list[str]:
        stored = body(
            "IPAddress", {"claimRef": {"name": "c"}, "address": "10.0.0.1", "prefix": 24, **address}, group=CAPI
        )
        known = definitions.read(body("IPAddressClaim", claim, group=CAPI)) if claim else None
        refused = admission.review(definitions.read(stored), None, in_use=lambda _: (), claim_of=lambda _: known)
        return [str(cause) for cause in refused]

    assert not reasons(claim_body(), claim_body())
    assert not reasons(None, claim_body())
    # The group may be left away in v1beta1.
    assert not reasons(claim_body(apiGroup=""), claim_body())
    for other in ({"name": "q"}, {"kind": "InClusterIPPool"}, {"apiGroup": "ipam.cluster.x-k8s.io"}):
        (reason,) = reasons(claim_body(), claim_body(**other))
        assert reason.startswith("spec.poolRef: Invalid value")
        assert "IPPool.ipam.metal3.io p" in reason


def test_an_object_older_than_the_rules_can_still_be_marked_and_deleted() -> None:
    bad = pool(pools=[{"prefix": 24}])
    marked = {**bad, "metadata": {**server.metadata(bad), "labels": {"a": "b"}}}
    assert not changed(bad, marked)
    going = {**pool(pools=[{}]), "metadata": {**server.metadata(bad), "deletionTimestamp": meta.stamp(server.BEGIN)}}
    assert not changed(bad, going)


def test_ranges_over_those_of_a_pool_with_another_prefix_are_worth_a_warning() -> None:
    new = meta.read(pool(pools=[{"start": "10.0.0.9", "end": "10.0.0.20"}]), ipam.IPPool)
    specs = {"same": {"namePrefix": "p"}, "over": {"namePrefix": "q"}, "beside": {"namePrefix": "r"}}
    ends = {"same": "10.0.0.9", "over": "10.0.0.9", "beside": "10.0.0.8"}
    other_addresses = [
        meta.read(server.pool(name, **{**spec, "pools": [{"start": "10.0.0.1", "end": ends[name]}]}), ipam.IPPool)
        for name, spec in specs.items()
    ]
    (warning,) = admission.warnings(new, [new, *other_addresses])
    assert warning.startswith("ranges overlap with those of IPPool over")
