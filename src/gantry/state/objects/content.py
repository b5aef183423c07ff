"""The objects of the cluster at one moment, immutable, with the indexes for lookups.

``snapshot`` adds the step to the next snapshot, with ``draft`` and ``integrity``. The collections and
indexes are written out here, because the type checker has to know them; a test compares them with ``kinds.KINDS``.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from immutables import Map

from gantry import errors
from gantry.model import access, base, cluster_settings, instance, job, network, webhook
from gantry.model import cluster as clusters
from gantry.rpc import targets
from gantry.state.objects import indexes, kinds

_UUID_LENGTH = 36
_UUID_DASHES = 4


def ambiguous(kind: str, name: str, matching: Iterable[str]) -> errors.InvalidError:
    """Return the error for a name that fits several objects."""
    return errors.InvalidError(f"{kinds.KINDS[kind].noun} name {name} is ambiguous: {', '.join(sorted(matching)[:5])}")


def unknown(kind: str, name: str) -> errors.NotFoundError:
    """Return the error for a name that no object has."""
    command = kinds.KINDS[kind].list_command
    hint = f"{command} shows those there are" if command else ""
    return errors.NotFoundError(f"no such {kinds.KINDS[kind].noun}: {name}", hint=hint)


@dataclass(frozen=True)
class Content:
    """The whole state after the record ``serial``; ``last_job`` is the highest job number ever assigned.

    ``names`` finds a UUID by kind and name, ``addresses`` the owner of an address by network UUID and canonical
    text, ``macs`` the instance or port of a MAC address, ``nics`` the instance of a NIC, ``on_node`` and ``in_network``
    the instances of a node and of a network, ``copies_on`` those whose disks a node keeps as their secondary one,
    ``nodes_in`` the nodes of a group, ``nodes_at`` those whose daemon has an address, ``disks_on`` the disks without an
    instance that a node keeps, ``numbers`` the instance, or the disk without one, of a minor or port, ``ports_in`` the
    ports in a network, ``ports_of`` those of a device, ``subnet_network`` the network of a subnet, ``subnets_from`` the
    subnets that were cut from a subnet pool,
    ``segments`` the network of a segment (``Segment.place``), ``rules_of`` the access rules of a user or group,
    ``rules_on`` those on a scope by its key, and ``rules_for`` those of both, ``WHO KEY``. ``token_ids`` finds an API
    token by its public id, ``tokens_of`` those of a user, ``tokens_on`` those with a role on a scope by its key.
    """

    serial: int = 0
    last_job: int = 0
    cluster: clusters.Cluster | None = None
    nodegroups: Map[str, clusters.NodeGroup] = field(default_factory=Map)
    nodes: Map[str, clusters.Node] = field(default_factory=Map)
    networks: Map[str, network.Network] = field(default_factory=Map)
    resting: Map[str, network.Quarantine] = field(default_factory=Map)
    segmentranges: Map[str, network.SegmentRange] = field(default_factory=Map)
    ports: Map[str, network.Port] = field(default_factory=Map)
    subnetpools: Map[str, network.SubnetPool] = field(default_factory=Map)
    instances: Map[str, instance.Instance] = field(default_factory=Map)
    disks: Map[str, instance.DetachedDisk] = field(default_factory=Map)
    accessrules: Map[str, access.Rule] = field(default_factory=Map)
    apitokens: Map[str, access.Token] = field(default_factory=Map)
    webhooks: Map[str, webhook.Webhook] = field(default_factory=Map)
    webhookpositions: Map[str, webhook.Position] = field(default_factory=Map)
    jobs: Map[str, job.Job] = field(default_factory=Map)
    names: Map[tuple[str, str], str] = field(default_factory=Map)
    addresses: Map[tuple[str, str], kinds.AddressOwner] = field(default_factory=Map)
    macs: Map[str, str] = field(default_factory=Map)
    nics: Map[str, str] = field(default_factory=Map)
    on_node: Map[str, indexes.Uuids] = field(default_factory=Map)
    copies_on: Map[str, indexes.Uuids] = field(default_factory=Map)
    in_network: Map[str, indexes.Uuids] = field(default_factory=Map)
    ports_of: Map[str, indexes.Uuids] = field(default_factory=Map)
    ports_in: Map[str, indexes.Uuids] = field(default_factory=Map)
    subnet_network: Map[str, str] = field(default_factory=Map)
    subnets_from: Map[str, indexes.Uuids] = field(default_factory=Map)
    segments: Map[tuple[str, str, int], str] = field(default_factory=Map)
    numbers: Map[instance.Number, str] = field(default_factory=Map)
    nodes_in: Map[str, indexes.Uuids] = field(default_factory=Map)
    nodes_at: Map[str, indexes.Uuids] = field(default_factory=Map)
    disks_on: Map[str, indexes.Uuids] = field(default_factory=Map)
    rules_for: Map[str, indexes.Uuids] = field(default_factory=Map)
    rules_of: Map[str, indexes.Uuids] = field(default_factory=Map)
    rules_on: Map[str, indexes.Uuids] = field(default_factory=Map)
    token_ids: Map[str, str] = field(default_factory=Map)
    tokens_of: Map[str, indexes.Uuids] = field(default_factory=Map)
    tokens_on: Map[str, indexes.Uuids] = field(default_factory=Map)

    @property
    def the_cluster(self) -> clusters.Cluster:
        """Return the cluster; InternalError before there is one."""
        if self.cluster is None:
            raise errors.InternalError("the state holds no cluster")
        return self.cluster

    def collection(self, kind: str) -> Map[str, kinds.Stored]:
        """Return a collection by its name, the cluster excepted."""
        collection: Map[str, kinds.Stored] = getattr(self, kind)
        return collection

    @property
    def size(self) -> int:
        """Return the number of objects that a checkpoint holds, the cluster excepted."""
        return sum(len(self.collection(name)) for name, kind in kinds.KINDS.items() if kind.in_checkpoint)

    def get(self, kind: str, key: str) -> kinds.Stored | None:
        """Return a stored object or None."""
        if kinds.KINDS[kind].single:
            return self.cluster if self.cluster and self.cluster.uuid == key else None
        return self.collection(kind).get(key)

    def resolve(self, kind: str, name: str) -> str:
        """Return the UUID for a name, a UUID, or the unique beginning of a dotted name.

        Raises NotFoundError, or InvalidError when a short name, or one that need not be unique, fits several
        (contracts/opcodes.md#value-coercion).
        """
        if uuid := self.named(kind, name):
            return uuid
        matching_uuids = self.matching(kind, name)
        if len(matching_uuids) == 1:
            return next(iter(matching_uuids.values()))
        if matching_uuids:
            raise ambiguous(kind, name, matching_uuids)
        raise unknown(kind, name)

    def named(self, kind: str, name: str) -> str:
        """Return the UUID of the object with a UUID or whole name, empty without one."""
        return name if name in self.collection(kind) else self.names.get((kind, name), "")

    def matching(self, kind: str, name: str) -> dict[str, str]:
        """Return the UUIDs of the objects that a short name, or one that need not be unique, fits, by whole name."""
        # A collection that may be large is not searched for an unknown UUID.
        is_uuid = not kinds.KINDS[kind].unique_names and len(name) == _UUID_LENGTH and name.count("-") == _UUID_DASHES
        known = self.collection(kind).values() if name and not is_uuid else ()
        entities = [entity for entity in known if isinstance(entity, base.Entity)]
        if not kinds.KINDS[kind].unique_names:
            return {entity.uuid: entity.uuid for entity in entities if entity.name == name}
        return {entity.name: entity.uuid for entity in entities if entity.name.startswith(f"{name}.")}

    def node(self, name: str) -> clusters.Node:
        """Return a node by name or UUID; NotFoundError."""
        return self.nodes[self.resolve("nodes", name)]

    def numbers_of_candidates(self, *, without: Collection[str] = ()) -> tuple[int, int]:
        """Return the number of master candidates, the master included, and of lost ones, without nodes by UUID."""
        owner, roles = self.the_cluster, (clusters.Role.MASTER, clusters.Role.CANDIDATE)
        nodes = [node for node in self.nodes.values() if node.uuid not in without]
        other_nodes = [node for node in nodes if node.role(owner) not in roles]
        return len(nodes) - len(other_nodes), sum(node.lost_candidate for node in other_nodes)

    @property
    def replication_policy(self) -> cluster_settings.Replication:
        """Return the policy of replication in force."""
        return self.the_cluster.replication_policy(*self.numbers_of_candidates())

    def group(self, name: str) -> clusters.NodeGroup:
        """Return a node group by name or UUID; NotFoundError."""
        return self.nodegroups[self.resolve("nodegroups", name)]

    def segment_range(self, name: str) -> network.SegmentRange:
        """Return a segment range by UUID, or by its name where only one is called so; NotFoundError, InvalidError."""
        return self.segmentranges[self.resolve("segmentranges", name)]

    def port(self, name: str) -> network.Port:
        """Return a port by UUID, or by its name where only one is called so; NotFoundError, InvalidError."""
        return self.ports[self.resolve("ports", name)]

    def subnet_pool(self, name: str) -> network.SubnetPool:
        """Return a subnet pool by UUID, or by its name where only one is called so; NotFoundError, InvalidError."""
        return self.subnetpools[self.resolve("subnetpools", name)]

    def network(self, name: str) -> network.Network:
        """Return a network by name or UUID; NotFoundError."""
        return self.networks[self.resolve("networks", name)]

    def detached_disk(self, name: str) -> instance.DetachedDisk:
        """Return a disk without an instance by its name or UUID; NotFoundError, or InvalidError where several fit."""
        matching_disks = (
            [self.disks[name]] if name in self.disks else [disk for disk in self.disks.values() if disk.name == name]
        )
        if len(matching_disks) == 1:
            return matching_disks[0]
        if matching_disks:
            uuids = ", ".join(sorted(disk.uuid for disk in matching_disks))
            raise errors.InvalidError(
                f"{len(matching_disks)} disks without an instance are named {name}", hint=f"UUIDs: {uuids}"
            )
        raise errors.NotFoundError(
            f"there is no disk {name} without an instance",
            hint="gnt-node list -o name,detached_disks shows those there are",
        )

    def owner(self, reference: kinds.AddressOwner) -> kinds.Owner:
        """Return the instance or port that owns an address."""
        return self.ports[reference.port] if reference.port else self.instances[reference.instance]

    def instance(self, name: str) -> instance.Instance:
        """Return an instance by name or UUID; NotFoundError."""
        return self.instances[self.resolve("instances", name)]

    def target(self, node: clusters.Node) -> targets.Target:
        """Return where to call a node."""
        return targets.Target(
            uuid=node.uuid, name=node.name, address=node.primary_ip, port=node.port, offline=node.offline
        )
