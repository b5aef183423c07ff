"""Each kind of stored object is complete: a field of Content, indexes that exist, a section of ``config.data``."""

import dataclasses
import typing

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import access, cluster, instance, network, webhook
from gantry.state.files import checkpoint
from gantry.state.journal import journal, record
from gantry.state.objects import content, kinds, snapshot

INDEXES = {index.field for kind in kinds.KINDS.values() for index in kind.indexes}

POOL = network.SubnetPool(
    uuid="sp", name="", prefixes=("10.0.0.0/8",), default_prefixlen=24, min_prefixlen=8, max_prefixlen=32
)
DISK = instance.Disk(
    uuid="d", dev_type="drbd", size=8, mirror=instance.Mirror(minors={"n1": 3, "n2": 4}, port=11007, secret="s")
)
OTHER_DISK = instance.Disk(
    uuid="e", dev_type="drbd", size=8, mirror=instance.Mirror(minors={"n0": 1, "n1": 1}, port=11008, secret="s")
)

EXAMPLES: dict[str, snapshot.Stored] = {
    "cluster": build.OWNER,
    "nodegroups": cluster.NodeGroup(
        uuid="g2", name="other", networks={"net": cluster.Connection(mode="bridged", link="br0")}
    ),
    "nodes": build.node(3),
    "networks": network.Network(
        uuid="tagged",
        name="tagged",
        subnets=(
            network.Subnet(uuid="t", cidr="10.0.0.0/24", subnetpool="sp", pools=(network.Pool(range="10.0.0.2"),)),
        ),
        segment=network.Segment(network_type="vlan", segmentation_id=7, physical_network="wire"),
    ),
    "instances": msgspec.structs.replace(build.vm(1, ip="10.0.0.1"), disks=(OTHER_DISK,)),
    "disks": instance.DetachedDisk(disk=DISK, nodes=("n1", "n2"), instance="inst9"),
    "resting": network.Quarantine(network="net", ip="10.0.0.9", until=7.0, instance="i9", name="inst9"),
    "segmentranges": network.SegmentRange(uuid="r", name="", network_type="vxlan", minimum=1, maximum=9),
    "ports": network.Port(
        uuid="p", name="vip", network="net", mac="aa:00:00:00:00:aa", ip=("10.0.0.7",), device_id="x"
    ),
    "subnetpools": POOL,
    "accessrules": access.Rule(
        uuid="r", name="user:bob", role=access.Role.OPERATOR, scope=access.Scope.NETWORK, object="net"
    ),
    "apitokens": access.Token(
        uuid="t",
        name="bob:ci",
        id="0123456789",
        secret_hash="0" * 64,
        extent=access.Extent.ROLES,
        roles=(access.RoleOn(role=access.Role.OPERATOR, scope=access.Scope.NETWORK, object="net"),),
    ),
    "webhooks": webhook.Webhook(
        uuid="w", name="hook", origin="https://a.example", secret_url="https://a.example/x", secret="AAAA"
    ),
    "webhookpositions": webhook.Position(uuid="w", name="hook", serial=7),
    "jobs": build.queued(5),
}
"""An object of each kind, with an entry in each index of its kind."""

KIND = pytest.mark.parametrize("collection", kinds.KINDS)


def before(collection: str) -> snapshot.Snapshot:
    """Return a state with all that the example of a kind refers to, and without the example."""
    needed: list[snapshot.Stored] = [] if collection in ("cluster", "subnetpools") else [POOL]
    needed += [EXAMPLES["webhooks"]] if collection == "webhookpositions" else []
    first = build.FIRST[1:] if collection == "cluster" else build.FIRST
    return snapshot.Snapshot().apply([*first, *build.put(*needed)], serial=1)


def test_there_is_an_example_of_each_kind() -> None:
    assert {collection: type(value) for collection, value in EXAMPLES.items()} == {
        kind.collection: kind.type for kind in kinds.KINDS.values()
    }


def test_each_kind_is_a_stored_type_and_the_other_way_round() -> None:
    assert {*typing.get_args(kinds.Stored)} == {kind.type for kind in kinds.KINDS.values()}


def test_the_fields_of_the_content_are_the_collections_and_the_indexes_of_the_kinds() -> None:
    fields = {field.name for field in dataclasses.fields(content.Content)}
    assert fields == {"serial", "last_job"} | {*kinds.KINDS} | INDEXES


def test_references_lead_to_kinds_and_use_their_own_indexes() -> None:
    for kind in kinds.KINDS.values():
        indexes = {index.field for index in kind.indexes}
        for reference in kind.references:
            assert reference.to in kinds.KINDS
            assert {*reference.users} <= indexes


@KIND
def test_an_object_enters_all_indexes_of_its_kind_and_leaves_them(collection: str) -> None:
    example, empty = EXAMPLES[collection], before(collection)
    change = snapshot.Put(example)
    full = empty.apply([change], serial=1)
    assert full.get(collection, change.key) is example
    plain_full, plain_empty = build.content(full), build.content(empty)
    changed = {name for name, index in plain_full.items() if index != plain_empty[name]}
    indexes = {index.field for index in kinds.KINDS[collection].indexes}
    assert changed == indexes | {collection} | ({"last_job"} if collection == "jobs" else set())
    emptied = full.apply([snapshot.Delete(collection, change.key)], serial=1)
    assert build.content(emptied) == plain_empty | {"last_job": full.last_job}


@pytest.mark.parametrize("collection", [kind.collection for kind in kinds.KINDS.values() if kind.references])
def test_what_an_object_refers_to_exists_before_it_and_stays_while_it_does(collection: str) -> None:
    example = EXAMPLES[collection]
    with pytest.raises(errors.NotFoundError, match="no such"):
        snapshot.Snapshot().apply([snapshot.Put(example)], serial=1)
    full = before(collection).apply([snapshot.Put(example)], serial=2)
    for reference in kinds.KINDS[collection].references:
        uuids = list(reference.uuids(example))
        assert uuids
        for uuid in uuids:
            with pytest.raises(errors.WrongStateError, match=f"{reference.relation} "):
                full.apply([snapshot.Delete(reference.to, uuid)], serial=3)


@KIND
def test_an_object_comes_back_from_the_journal(collection: str) -> None:
    stored = record.Record(
        serial=1, time=0.0, epoch=0, cause=build.CAUSE, changes=(snapshot.Put(EXAMPLES[collection]),)
    )
    assert record.decode(record.encode(stored)) == stored


@pytest.mark.parametrize("collection", checkpoint.COLLECTIONS)
def test_an_object_comes_back_from_the_checkpoint(collection: str) -> None:
    full = before(collection).apply([snapshot.Put(EXAMPLES[collection])], serial=2)
    data = checkpoint.encode(full, journal.Position(2), now=1.0)
    assert EXAMPLES[collection] in checkpoint.decode(data, path="config.data").objects


def test_every_kind_is_in_the_checkpoint_except_for_those_that_are_elsewhere() -> None:
    sections = msgspec.json.decode(
        checkpoint.encode(before("jobs"), journal.Position(1), now=1.0), type=dict[str, msgspec.Raw]
    )
    assert {*kinds.KINDS} - {*sections} == {"jobs"}
    assert [key for key in sections if key in checkpoint.COLLECTIONS] == [*checkpoint.COLLECTIONS]


def test_the_references_that_need_a_walk_over_a_whole_collection_are_last() -> None:
    walks = {to: [not each.users for _, each in pairs] for to, pairs in kinds.REFERENCES_TO.items()}
    assert {True, False} in map(set, walks.values())
    assert walks == {to: sorted(each) for to, each in walks.items()}
