"""The kinds of stored objects, each with one descriptor, and the changes that a transaction consists of.

``KINDS`` is where a kind is added (docs/contributing/check-lists.md). ``snapshot`` exports what other packages use.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from gantry import errors
from gantry.model import access, base, instance, job, network, webhook
from gantry.model import cluster as clusters
from gantry.state.objects import conflicts
from gantry.state.objects.indexes import Index, Maps, Reference, SetIndex, UniqueIndex

Keeper = instance.Instance | instance.DetachedDisk
"""An object that owns minors and ports of mirrored disks."""

Owner = conflicts.Owner

Layer = network.Network | network.Quarantine | network.SegmentRange | network.Port | network.SubnetPool

Receiver = webhook.Webhook | webhook.Position

Stored = (
    clusters.Cluster
    | clusters.NodeGroup
    | clusters.Node
    | Layer
    | Keeper
    | access.Rule
    | access.Token
    | Receiver
    | job.Job
)

T = TypeVar("T", bound=Stored)


class AddressOwner(msgspec.Struct, frozen=True, gc=False):
    """The owner of an address, by UUIDs: an instance with one of its NICs, or a port; the other fields are empty."""

    instance: str = ""
    nic: str = ""
    port: str = ""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The descriptor of a kind of stored object.

    ``collection`` is the name of the map in ``Content``, in the journal and in ``config.data``; ``type`` is the struct.
    ``noun`` names such an object in messages, ``list_command`` lists all of them, ``event`` is the kind in events; each
    may be empty. ``key`` returns the key of an object in its collection: the UUID, or the number of a job.

    ``indexes`` are the indexes of the objects, in the order in which conflicts are checked. ``indexed`` returns what
    the index entries of an object depend on: while that stays equal, a change of the object leaves the indexes alone.
    ``references`` are the fields that name objects of other kinds.

    ``single`` means that there is at most one object, which ``Content`` has as it is, not in a map. ``in_checkpoint``
    means that ``config.data`` has the collection as a map by key, ``in_every_checkpoint`` that no version of the file
    lacks it.
    """

    collection: str
    type: type[T]
    noun: str = ""
    list_command: str = ""
    event: str = ""
    key: Callable[[T], str] = operator.attrgetter("uuid")
    single: bool = False
    in_checkpoint: bool = True
    in_every_checkpoint: bool = False
    indexes: tuple[Index[T], ...] = ()
    indexed: Callable[[T], object] | None = None
    references: tuple[Reference[T], ...] = ()

    @property
    def unique_names(self) -> bool:
        """Return whether the objects are in the index of names."""
        return any(index.field == "names" for index in self.indexes)


def _mac_conflict(maps: Maps, mac: str, uuid: str) -> errors.GantryError:
    return conflicts.mac_in_use(mac, owner=maps.instances.get(uuid) or maps.ports[uuid])


def _address_conflict(maps: Maps, key: tuple[str, str], reference: AddressOwner) -> errors.GantryError:
    owner = maps.ports[reference.port] if reference.port else maps.instances[reference.instance]
    return conflicts.address_in_use(maps.networks.get(key[0]), key[1], owner=owner)


def _number_conflict(maps: Maps, number: instance.Number, uuid: str) -> errors.GantryError:
    vm = maps.instances.get(uuid)
    owner = f"a disk of instance {vm.name}" if vm else f"disk {uuid}, which has no instance"
    return conflicts.number_in_use(number, maps.nodes, owner=owner)


def _segment_conflict(maps: Maps, key: tuple[str, str, int], uuid: str) -> errors.GantryError:
    network_type, physical, number = key
    if network_type == network.FLAT:
        return conflicts.physical_network_in_use(physical, owner=maps.networks[uuid])
    segment = network.Segment(network_type=network_type, segmentation_id=number, physical_network=physical)
    return conflicts.segment_in_use(segment, owner=maps.networks[uuid])


def _subnet_conflict(maps: Maps, subnet: str, uuid: str) -> errors.GantryError:
    return errors.ExistsError(f"subnet {subnet} exists already in network {maps.networks[uuid].name}")


def _token_conflict(maps: Maps, identifier: str, uuid: str) -> errors.GantryError:
    del maps, uuid
    return errors.ExistsError(f"an API token has the id {identifier} already", hint="generate another secret")


def _name_conflict(_: Maps, key: tuple[str, str], uuid: str) -> errors.GantryError:
    collection, name = key
    return errors.ExistsError(f"{KINDS[collection].noun} {name} exists already", hint="choose another name")


def _names(collection: str) -> UniqueIndex[base.Entity, tuple[str, str], str]:
    return UniqueIndex("names", lambda entity: (((collection, entity.name), entity.uuid),), conflict=_name_conflict)


def _networks_of(vm: instance.Instance) -> set[str]:
    """Return the networks in which an instance has NICs or lingering addresses."""
    return {*(nic.network for nic in vm.nics), *(allocation.network for allocation in vm.lingering)} - {""}


def _described() -> "Iterator[Kind[Stored]]":
    """Yield the descriptors in the order of ``config.data``.

    A descriptor calls its functions only with objects of its own type, because ``kind_of`` finds it by that type; so
    ``cast`` may hide the type here.
    """
    for kind in (
        Kind[clusters.Cluster]("cluster", clusters.Cluster, event="cluster", single=True, in_checkpoint=False),
        Kind[clusters.NodeGroup](
            "nodegroups",
            clusters.NodeGroup,
            "node group",
            "gnt-group list",
            "group",
            in_every_checkpoint=True,
            indexes=(_names("nodegroups"),),
            references=(
                Reference(
                    "networks", lambda group: group.networks, relation="is connected to", hint="disconnect it first"
                ),
            ),
        ),
        Kind[clusters.Node](
            "nodes",
            clusters.Node,
            "node",
            "gnt-node list",
            "node",
            in_every_checkpoint=True,
            indexes=(
                SetIndex("nodes_in", lambda node: ((node.group, node.uuid),)),
                SetIndex("nodes_at", lambda node: ((node.primary_ip, node.uuid),)),
                _names("nodes"),
            ),
            references=(
                Reference("nodegroups", lambda node: (node.group,) if node.group else (), users=("nodes_in",)),
            ),
        ),
        Kind[network.Network](
            "networks",
            network.Network,
            "network",
            "gnt-network list",
            "network",
            in_every_checkpoint=True,
            indexes=(
                UniqueIndex(
                    "segments",
                    lambda net: ((net.wire_key, net.uuid),) if net.wire_key else (),
                    conflict=_segment_conflict,
                ),
                UniqueIndex(
                    "subnet_network",
                    lambda net: [(subnet.uuid, net.uuid) for subnet in net.subnets],
                    conflict=_subnet_conflict,
                ),
                SetIndex(
                    "subnets_from",
                    lambda net: [(subnet.subnetpool, subnet.uuid) for subnet in net.subnets if subnet.subnetpool],
                ),
                _names("networks"),
            ),
            references=(
                Reference(
                    "subnetpools",
                    lambda net: [subnet.subnetpool for subnet in net.subnets if subnet.subnetpool],
                    users=("subnets_from",),
                    noun="subnet",
                ),
            ),
        ),
        Kind[instance.Instance](
            "instances",
            instance.Instance,
            "instance",
            "gnt-instance list",
            "instance",
            in_every_checkpoint=True,
            indexes=(
                SetIndex("on_node", lambda vm: ((vm.primary_node, vm.uuid),)),
                SetIndex("copies_on", lambda vm: [(node, vm.uuid) for node in vm.secondary_nodes]),
                UniqueIndex(
                    "numbers", lambda vm: [(number, vm.uuid) for number in vm.numbers()], conflict=_number_conflict
                ),
                UniqueIndex("macs", lambda vm: [(nic.mac, vm.uuid) for nic in vm.nics], conflict=_mac_conflict),
                # UUIDs of NICs are generated, so they need no check.
                UniqueIndex("nics", lambda vm: [(nic.uuid, vm.uuid) for nic in vm.nics]),
                SetIndex("in_network", lambda vm: [(uuid, vm.uuid) for uuid in _networks_of(vm)]),
                UniqueIndex(
                    "addresses",
                    lambda vm: [((use.network, use.ip), AddressOwner(vm.uuid, use.nic)) for use in vm.allocations()],
                    conflict=_address_conflict,
                ),
                _names("instances"),
            ),
            indexed=lambda vm: (vm.name, vm.primary_node, vm.nics, vm.lingering, [disk.mirror for disk in vm.disks]),
            references=(
                Reference("nodes", lambda vm: vm.nodes, users=("on_node", "copies_on")),
                # The index also has the networks of lingering addresses, which keep a network from being deleted.
                Reference(
                    "networks", lambda vm: [nic.network for nic in vm.nics if nic.network], users=("in_network",)
                ),
            ),
        ),
        Kind[instance.DetachedDisk](
            "disks",
            instance.DetachedDisk,
            "detached disk",
            indexes=(
                SetIndex("disks_on", lambda disk: [(node, disk.uuid) for node in disk.nodes]),
                UniqueIndex(
                    "numbers",
                    lambda disk: [(number, disk.uuid) for number in disk.numbers()],
                    conflict=_number_conflict,
                ),
            ),
            references=(
                Reference(
                    "nodes",
                    lambda disk: disk.nodes,
                    users=("disks_on",),
                    hint="attach the disk to an instance with gnt-instance modify --disk attach:uuid=UUID, "
                    "or remove it on the node",
                ),
            ),
        ),
        Kind[network.Quarantine]("resting", network.Quarantine),
        Kind[network.SegmentRange](
            "segmentranges", network.SegmentRange, "segment range", "gantry segment range list", "segmentrange"
        ),
        Kind[network.Port](
            "ports",
            network.Port,
            "port",
            event="port",
            indexes=(
                SetIndex("ports_in", lambda port: ((port.network, port.uuid),)),
                SetIndex("ports_of", lambda port: ((port.device_id, port.uuid),) if port.device_id else ()),
                UniqueIndex("macs", lambda port: ((port.mac, port.uuid),), conflict=_mac_conflict),
                UniqueIndex(
                    "addresses",
                    lambda port: [((port.network, ip), AddressOwner(port=port.uuid)) for ip in port.ip],
                    conflict=_address_conflict,
                ),
            ),
            indexed=lambda port: (port.network, port.mac, port.ip, port.device_id),
            references=(
                Reference("networks", lambda port: (port.network,), users=("ports_in",), hint="remove the ports first"),
            ),
        ),
        Kind[network.SubnetPool]("subnetpools", network.SubnetPool, "subnet pool", event="subnetpool"),
        Kind[access.Rule](
            "accessrules",
            access.Rule,
            "access rule",
            "gnt-cluster access list",
            "access",
            indexes=(
                SetIndex("rules_for", lambda rule: ((f"{rule.who} {rule.key}", rule.uuid),)),
                SetIndex("rules_of", lambda rule: ((rule.who, rule.uuid),)),
                SetIndex("rules_on", lambda rule: ((rule.key, rule.uuid),)),
            ),
        ),
        Kind[access.Token](
            "apitokens",
            access.Token,
            "API token",
            "gantry token list",
            "token",
            indexes=(
                UniqueIndex("token_ids", lambda token: ((token.id, token.uuid),), conflict=_token_conflict),
                SetIndex("tokens_of", lambda token: ((token.user, token.uuid),)),
                SetIndex("tokens_on", lambda token: [(key, token.uuid) for key in {each.key for each in token.roles}]),
                _names("apitokens"),
            ),
        ),
        Kind[webhook.Webhook](
            "webhooks", webhook.Webhook, "webhook", "gantry webhook list", "webhook", indexes=(_names("webhooks"),)
        ),
        # A position has no events: storing one would be an event, which would move the position.
        Kind[webhook.Position](
            "webhookpositions",
            webhook.Position,
            "webhook position",
            references=(Reference("webhooks", lambda position: (position.uuid,)),),
        ),
        Kind[job.Job]("jobs", job.Job, event="job", key=lambda record: str(record.id), in_checkpoint=False),
    ):
        yield cast("Kind[Stored]", kind)


KINDS = {kind.collection: kind for kind in _described()}
"""Every kind of stored object by its collection, in the order of ``config.data``.

See contracts/configuration.md#objects.
"""

_BY_TYPE: dict[type, Kind[Stored]] = {kind.type: kind for kind in KINDS.values()}

REFERENCES_TO: dict[str, list[tuple[Kind[Stored], Reference[Stored]]]] = {
    collection: sorted(
        ((kind, reference) for kind in KINDS.values() for reference in kind.references if reference.to == collection),
        key=lambda pair: not pair[1].users,
    )
    for collection in KINDS
}
"""The references to the objects of a collection, each with the kind that has it; those without an index are last."""


def kind_of(value: Stored) -> Kind[Stored]:
    """Return the descriptor of an object."""
    return _BY_TYPE[type(value)]


@dataclass(frozen=True, slots=True)
class Put:
    """Store an object, new or in place of the object with its key."""

    value: Stored

    @property
    def kind(self) -> str:
        """Return the collection of the object."""
        return _BY_TYPE[type(self.value)].collection

    @property
    def key(self) -> str:
        """Return the object's key in its collection."""
        return _BY_TYPE[type(self.value)].key(self.value)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the object with a key from a collection."""

    kind: str
    key: str


Change = Put | Delete
