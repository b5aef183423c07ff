"""``gantry-masterd init``: from a machine whose node daemon waits to be joined to a cluster of one node.

``gnt-cluster init`` calls it, with the cluster's description as JSON on standard input. The order is such that a
failure leaves nothing that a second try would stumble over: everything is checked, the authority is made, the node
daemon joins, and the state is written last.
"""

import contextlib
from typing import Annotated

import msgspec

from gantry import errors, security
from gantry.address import ranges
from gantry.daemons import identity
from gantry.model import base, cluster, opcodes, parameters
from gantry.operations import joining, nics
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state import snapshot, transaction


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new cluster shall be."""

    cluster_name: opcodes.Name
    node_name: opcodes.Name
    primary_ip: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1811
    mac_prefix: str = "aa:00:00"
    master_netdev: str = ""
    enabled_hypervisors: tuple[str, ...] = ("kvm",)
    enabled_disk_templates: tuple[str, ...] = ("file", "diskless")
    candidate_pool_size: int = 10
    network_thresholds: tuple[int, int] = (80, 95)
    hvparams: dict[str, base.Parameters] = {}
    beparams: base.Parameters = {}
    nicparams: base.Parameters = {}


def decode(data: bytes) -> Description:
    """Read and check a description; InvalidError."""
    try:
        wanted = msgspec.json.decode(data, type=Description, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidError(f"description of the cluster is not valid: {error}") from None
    ranges.parse_address(wanted.primary_ip)
    nics.checked_prefix(wanted.mac_prefix)
    unknown = [name for name in wanted.enabled_hypervisors if name not in parameters.HYPERVISORS]
    if unknown or not wanted.enabled_hypervisors:
        known = ", ".join(parameters.HYPERVISORS)
        raise errors.InvalidError(
            f"unknown hypervisor {', '.join(unknown) or '(none given)'}", hint=f"known are {known}"
        )
    wrong = [name for name in wanted.enabled_disk_templates if name not in ("file", "diskless")]
    if wrong or not wanted.enabled_disk_templates:
        raise errors.InvalidError(f"unknown disk template {', '.join(wrong) or '(none given)'}", hint="file, diskless")
    if wanted.candidate_pool_size < 1:
        raise errors.InvalidError("candidate pool size is below 1")
    warning, critical = wanted.network_thresholds
    if not 0 < warning <= critical <= 100:
        raise errors.InvalidError(
            f"network thresholds {warning},{critical} are not valid",
            hint="two percentages, first that of warnings, as in 80,95",
        )
    return wanted


def objects(wanted: Description, inputs: interface.Randomness, now: float) -> list[snapshot.Put]:
    """Return the first objects of a cluster: its node group, its node and itself."""
    group = cluster.NodeGroup(uuid=inputs.uuid(), name="default", ctime=now, mtime=now)
    node = cluster.Node(
        uuid=inputs.uuid(),
        name=wanted.node_name,
        ctime=now,
        mtime=now,
        primary_ip=str(ranges.parse_address(wanted.primary_ip)),
        port=wanted.port,
        group=group.uuid,
        master_candidate=True,
    )
    nic = parameters.merge({}, parameters.check(wanted.nicparams, parameters.NIC, what="NIC"))
    backend = parameters.merge({}, parameters.backend(wanted.beparams))
    hypervisors = {
        name: parameters.merge({}, parameters.hypervisor(name, given)) for name, given in wanted.hvparams.items()
    }
    owner = cluster.Cluster(
        uuid=inputs.uuid(),
        name=wanted.cluster_name,
        ctime=now,
        mtime=now,
        master_node=node.uuid,
        mac_prefix=wanted.mac_prefix.lower(),
        master_netdev=wanted.master_netdev,
        enabled_hypervisors=wanted.enabled_hypervisors,
        enabled_disk_templates=wanted.enabled_disk_templates,
        candidate_pool_size=wanted.candidate_pool_size,
        network_thresholds=wanted.network_thresholds,
        hvparams=hypervisors,
        beparams={"default": backend} if backend else {},
        nicparams={"default": nic} if nic else {},
    )
    return [snapshot.Put(group), snapshot.Put(node), snapshot.Put(owner)]


async def init(runtime: interface.Runtime, folders: paths.Paths, wanted: Description, *, secure: bool = True) -> None:
    """Make the cluster. Raises ExistsError where there is one, EnvironmentFaultError without a node daemon.

    ``secure`` as in ``identity.client_context``.
    """
    if runtime.disk.exists(folders.config):
        raise errors.ExistsError(
            f"there is a cluster here already: {folders.config}", hint="gnt-cluster destroy takes it apart"
        )
    initial = objects(wanted, runtime.random, runtime.clock.now())
    node = next(put.value for put in initial if isinstance(put.value, cluster.Node))
    token = _read_token(runtime, folders)
    pair = security.make_authority(wanted.cluster_name, runtime.clock.now())
    await identity.store(runtime, folders, pair)
    authority = identity.load(runtime, folders)
    tls = await identity.client_context(runtime, folders, authority, secure=secure)
    nodes = client.Client(runtime.network, tls)
    try:
        status = await _join(runtime, nodes, node, token=token, authority=authority, cluster_name=wanted.cluster_name)
        accelerator, reason = status.accelerator, status.accelerator_reason
        known = msgspec.structs.replace(node, accelerator=accelerator, accelerator_reason=reason)
        await transaction.create(
            runtime, folders, [snapshot.Put(known) if put.value is node else put for put in initial]
        )
    except errors.GantryError:
        # The node daemon may be a member by now; it has to wait for a second try as it did for the first.
        with contextlib.suppress(errors.GantryError):
            await nodes.call(_target(node), calls.NodeLeave())
        raise
    finally:
        await nodes.close()


def _read_token(runtime: interface.Runtime, folders: paths.Paths) -> str:
    path = f"{folders.lib}/join-token"
    try:
        return runtime.disk.read(path).decode().strip()
    except FileNotFoundError:
        raise errors.EnvironmentFaultError(
            f"no node daemon waits here to be joined: {path} does not exist", hint="start gantry-noded first"
        ) from None


async def _join(
    runtime: interface.Runtime,
    nodes: client.Client,
    node: cluster.Node,
    *,
    token: str,
    authority: identity.Authority,
    cluster_name: str,
) -> calls.NodeStatus:
    """Give this machine's node daemon its certificate and return what it tells of itself."""
    where = _target(node)
    sleep = runtime.clock.sleep
    await joining.join(nodes, authority, where, token=token, cluster=cluster_name, sleep=sleep)
    return await nodes.call(where, calls.NodeInfo(probe=True))


def _target(node: cluster.Node) -> targets.Target:
    return targets.Target(node.uuid, node.name, node.primary_ip, node.port)
