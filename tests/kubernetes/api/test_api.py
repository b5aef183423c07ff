"""Objects are read leniently, and validated and described from a single declaration."""

import datetime
import ipaddress
import itertools
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import errors
from gantry.kubernetes.api import capi, definitions, ipam, manifests, meta, openapi, patches, schema, tables

JSON = st.recursive(
    st.booleans() | st.integers(0, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)
NOW = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)


def pool(**more: object) -> schema.Json:
    return {"apiVersion": ipam.API_VERSION, "kind": "IPPool", "metadata": {"name": "p", "namespace": "n"}, **more}


def test_unknown_fields_and_nulls_are_passed_over_and_a_senseless_status_is_none() -> None:
    body = pool(
        spec={"namePrefix": "p", "new": 1, "pools": None, "gateway": None}, status={"indexes": ["x"], "total": "many"}
    )
    seen = meta.read(body, ipam.IPPool)
    assert seen == meta.read(pool(spec={"namePrefix": "p"}), ipam.IPPool)
    assert seen.ref == ipam.pool_ref("n", "p")


def test_a_spec_of_the_wrong_type_is_an_error_that_names_the_field() -> None:
    with pytest.raises(errors.InvalidError, match=r"read: spec\.namePrefix: must be a text, not a whole number"):
        definitions.read(pool(spec={"namePrefix": 7}))
    with pytest.raises(errors.InvalidError, match="unknown kind Pod"):
        definitions.read({"apiVersion": "v1", "kind": "Pod"})


@pytest.mark.promise("claims-32", "claims-33")
def test_a_claim_says_pool_and_owner_and_its_address_in_either_spelling() -> None:
    for spelling in ("address", "ipAddress"):
        body = {
            "apiVersion": ipam.API_VERSION,
            "kind": "IPClaim",
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {"pool": {"name": "p"}, "owner": {"name": "data-1"}},
            "status": {spelling: {"name": "p-10-0-0-1"}},
        }
        claim = meta.read(body, ipam.IPClaim)
        assert (claim.pool, claim.spec.owner.name, claim.address_name) == (
            ipam.pool_ref("n", "p"),
            "data-1",
            "p-10-0-0-1",
        )
        assert claim.to_json() == body


@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**32) | st.integers(0, 127).map(lambda shift: 1 << shift))
def test_the_pattern_takes_every_address_in_every_usual_spelling(number: int) -> None:
    long = ipaddress.IPv6Address(number)
    texts = [long.exploded, long.exploded.upper(), *([] if "." in long.compressed else [long.compressed])]
    if number < 2**32:
        texts.append(str(ipaddress.IPv4Address(number)))
    for text in texts:
        assert re.fullmatch(ipam.ADDRESS, text)
        assert re.fullmatch(ipam.SUBNET, f"{text}/{32 if text.count('.') else 128}")
        assert not re.fullmatch(ipam.SUBNET, f"{text}/{33 if text.count('.') else 129}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.2.3",
        "1.2.3.4.5",
        "10.0.0.300",
        "01.2.3.4",
        ":::",
        "::1::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7::8",
        "::1%eth0",
        "::g",
    ],
)
def test_the_pattern_takes_nothing_else(text: str) -> None:
    assert not re.fullmatch(ipam.ADDRESS, text)


def test_unknown_fields_are_listed_and_taken_away_and_defaults_filled_in() -> None:
    definition = definitions.by_kind(ipam.GROUP, "IPPool")
    assert definition is not None
    node = definition.schema(ipam.VERSION)
    body = pool(spec={"namePrefix": "p", "x": 1, "pools": [{"y": 2, "start": "10.0.0.1"}]}, z=3)
    assert list(schema.unknown_fields(node, body)) == ["spec.x", "spec.pools[0].y", "z"]
    clean = schema.apply_defaults(node, schema.prune(node, body))
    spec = {"namePrefix": "p", "pools": [{"start": "10.0.0.1"}], "allocationStrategy": "sequential"}
    assert clean == pool(spec=spec)


@given(
    st.sampled_from([ipam.IPPool, ipam.IPClaim, ipam.IPAddress, capi.IPAddressClaim, capi.Cluster]),
    st.sampled_from(["spec", "status"]),
    st.dictionaries(
        st.sampled_from(["pool", "pools", "namePrefix", "allocationStrategy", "prefix", "address", "total", "indexes"]),
        st.none()
        | st.sampled_from([[], 24, 300, True, "p", "10.0.0.1", "random", ipam.RANDOM, {}, {"name": "p"}, {"name": 1}])
        | st.sampled_from([{"p": "10.0.0.1"}, {"p": None}, [{"start": "10.0.0.1"}], [{"start": "x"}], [None]]),
    ),
)
def test_what_fits_at_once_has_nothing_unknown_nothing_wrong_and_all_its_defaults(
    kind: type[meta.Resource], part: str, value: schema.Json
) -> None:
    definition = next(definition for definition in definitions.DEFINITIONS if definition.resource is kind)
    node = definition.schema(definition.versions[0], without=frozenset({"metadata", "spec", "status"} - {part}))
    body: schema.Json = {part: value}
    if schema.fits(node, body):
        assert list(schema.unknown_fields(node, body)) == []
        assert list(schema.check(node, body)) == []
        assert schema.prune(node, body) == schema.apply_defaults(node, body) == body


@pytest.mark.parametrize(
    "spec", [{"pool": {"name": "p"}}, {"pool": {"name": "p", "namespace": "n"}, "owner": {"name": "x"}}]
)
def test_a_usual_claim_fits_at_once(spec: schema.Json) -> None:
    node = definitions.DEFINITIONS[1].schema(ipam.VERSION)
    metadata: schema.Json = {"name": "c", "labels": {"a": "b"}}
    assert schema.fits(node, {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "metadata": metadata, "spec": spec})


def test_fields_of_kinds_that_are_not_ours_are_kept() -> None:
    definition = definitions.by_kind(capi.CLUSTER_GROUP, "Cluster")
    assert definition is not None
    body: schema.Json = {"spec": {"paused": True, "topology": {"class": "x"}}, "status": {"phase": "Provisioned"}}
    assert schema.prune(definition.schema("v1beta2"), body) == body


def nodes(value: object) -> Iterator[schema.Json]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


@pytest.mark.promise("claims-1", "claims-2", "claims-3")
def test_our_definitions_are_structural_and_use_nothing_that_old_servers_lack() -> None:
    ours = {str(item["metadata"]["name"]): item for item in manifests.ours()}  # type: ignore[index]
    assert sorted(ours) == [f"{name}.{ipam.GROUP}" for name in ("ipaddresses", "ipclaims", "ippools")]
    for definition in ours.values():
        (version,) = definition["spec"]["versions"]  # type: ignore[index]
        assert version["storage"]
        described = list(nodes(version["schema"]["openAPIV3Schema"]))
        assert not any("x-kubernetes-validations" in node or node.get("default") == "" for node in described)
        for node in described:
            properties = node.get("properties")
            if isinstance(properties, dict):
                assert all("type" in child for child in properties.values())
        assert json.loads(json.dumps(definition)) == definition


def test_definitions_of_kinds_that_are_partly_known_preserve_unknown_fields_at_each_depth() -> None:
    foreign = [definition for definition in definitions.DEFINITIONS if definition.is_partial]
    assert {definition.kind for definition in foreign} >= {"Cluster", "Metal3DataTemplate"}
    for definition in foreign:
        for version in manifests.crd(definition)["spec"]["versions"]:  # type: ignore[index]
            described = version["schema"]["openAPIV3Schema"]
            assert all(
                node.get("x-kubernetes-preserve-unknown-fields") for node in nodes(described) if node.get("properties")
            )


def test_status_is_a_subresource_of_pools_and_claims_and_not_of_addresses() -> None:
    by_kind = {
        definition.kind: manifests.crd(definition) for definition in definitions.DEFINITIONS if definition.is_ours
    }
    has = {kind: "subresources" in definition["spec"]["versions"][0] for kind, definition in by_kind.items()}  # type: ignore[index]
    assert has == {"IPPool": True, "IPClaim": True, "IPAddress": False}


def test_names_are_those_of_today() -> None:
    definition = definitions.by_plural(ipam.GROUP, "ipaddresses")
    assert definition is not None
    today = "ipa ipaddress m3ipa m3ipaddress m3ipaddresses metal3ipa metal3ipaddress metal3ipaddresses"
    assert sorted(definition.short_names) == sorted(today.split())
    assert definition.path(ipam.VERSION, "n") == "/apis/ipam.metal3.io/v1alpha1/namespaces/n/ipaddresses"


def test_clients_find_each_kind_in_both_descriptions() -> None:
    whole = json.dumps(openapi.whole(definitions.DEFINITIONS))
    for item, version in itertools.chain.from_iterable(
        ((definition, version) for version in definition.versions) for definition in definitions.DEFINITIONS
    ):
        described = json.dumps(openapi.group([item], version))
        reference = f'"$ref": "#/components/schemas/{openapi.name_of(item, version)}"'
        assert reference in described
        assert '"fieldValidation"' in described
        assert f'"$ref": "#/definitions/{openapi.name_of(item, version)}"' in whole


def test_a_table_shows_what_the_columns_say() -> None:
    definition = definitions.by_kind(ipam.GROUP, "IPPool")
    assert definition is not None
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Exhausted", "status": "False"}]
    marks = {"name": "p", "labels": {meta.CLUSTER_LABEL: "edge"}, "creationTimestamp": "2026-04-30T23:50:00Z"}
    body = pool(metadata=marks, status={"total": 9, "used": 0, "conditions": conditions})
    column_names = [str(column["name"]) for column in tables.columns(definition)]
    assert dict(zip(column_names, tables.cells(definition, body, now=NOW), strict=True)) == {
        "Name": "p",
        "Cluster": "edge",
        "Total": 9,
        "Used": 0,
        "Free": None,
        "Waiting": None,
        "Exhausted": "False",
        "Age": "10m",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (119, "119s"), (303, "5m3s"), (7000, "116m"), (11520, "3h12m"), (180000, "2d2h"), (9e6, "104d")],
)
def test_ages_are_displayed_as_kubectl_displays_them(seconds: float, text: str) -> None:
    assert tables.age(seconds) == text


@given(OBJECTS, OBJECTS)
def test_the_patch_between_two_objects_makes_one_of_the_other(old: schema.Json, new: schema.Json) -> None:
    assert patches.merge(old, patches.difference(old, new)) == new
    assert patches.difference(new, new) == {}


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = meta.with_condition((), meta.Condition(type="Ready", status="True", reason="A"), now=NOW)
    later = NOW + datetime.timedelta(hours=1)
    second = meta.with_condition(first, meta.Condition(type="Ready", status="True", reason="B"), now=later)
    third = meta.with_condition(second, meta.Condition(type="Ready", status="False", reason="B"), now=later)
    assert [item[0].last_transition_time for item in (first, second, third)] == [
        *[meta.stamp(NOW)] * 2,
        meta.stamp(later),
    ]


def test_a_json_patch_is_done_step_by_step_or_not_at_all() -> None:
    body: schema.Json = {"a": {"b": [1, 2, 3]}, "c": "old"}
    operation = patches.Operation
    steps = [
        operation(op="test", path="/c", value="old"),
        operation(op="replace", path="/c", value="new"),
        operation(op="remove", path="/a/b/1"),
        operation(op="add", path="/a/b/-", value=4),
        operation(op="copy", source="/a/b", path="/d"),
        operation(op="move", source="/a", path="/e~1f"),
    ]
    assert patches.apply_json_patch(body, steps) == {"c": "new", "d": [1, 3, 4], "e/f": {"b": [1, 3, 4]}}
    assert body == {"a": {"b": [1, 2, 3]}, "c": "old"}
    with pytest.raises(errors.WrongStateError):
        patches.apply_json_patch(body, [operation(op="remove", path="/a"), operation(op="remove", path="/a")])


@pytest.mark.parametrize(
    ("value", "equal", "different"),
    [
        (True, True, 1),
        (0, 0, False),
        (1, 1.0, True),
        (2.5, 2.5, 2),
        ("1", "1", 1),
        (None, None, False),
        ([], [], {}),
        ([1, [True]], [1.0, [True]], [1, [1]]),
        ([1, 2], [1, 2], [1]),
        ({"a": {"b": False}}, {"a": {"b": False}}, {"a": {"b": 0}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, {"a": 1}),
    ],
)
def test_the_test_of_a_json_patch_compares_types_too_but_numbers_by_value(
    value: object, equal: object, different: object
) -> None:
    body: schema.Json = {"a": value}
    assert patches.apply_json_patch(body, [patches.Operation(op="test", path="/a", value=equal)]) == body
    with pytest.raises(errors.WrongStateError, match="testing value /a failed"):
        patches.apply_json_patch(body, [patches.Operation(op="test", path="/a", value=different)])
