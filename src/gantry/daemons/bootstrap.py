"""``gantry-masterd init``: from a machine whose node daemon waits to be joined to a cluster of one node.

``gnt-cluster init`` calls it, with the cluster's description as JSON on standard input. The order is such that a
failure leaves nothing that a second try would stumble over: everything is checked, the authority is made, the node
daemon joins, and the state is written last.
"""

import contextlib
from typing import Annotated

import msgspec
from msgspec import structs

from gantry import errors, security
from gantry.address import ranges
from gantry.daemons import identity
from gantry.model import cluster, opcodes
from gantry.operations.cluster import set_params
from gantry.operations.node import accelerators, enroll
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state import snapshot, transaction


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new cluster shall be; ``settings`` are those that ``gnt-cluster modify`` changes later."""

    cluster_name: opcodes.Name
    node_name: opcodes.Name
    primary_ip: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1811
    settings: opcodes.ClusterSetParams = opcodes.ClusterSetParams()


def decode(data: bytes) -> Description:
    """Read and check a description, an object with the settings beside the names; InvalidError."""
    try:
        given = msgspec.json.decode(data, type=dict[str, object])
        names = {name: given.pop(name) for name in ("cluster_name", "node_name", "primary_ip", "port") if name in given}
        wanted = msgspec.convert(names, Description, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidError(f"description of the cluster is not valid: {error}") from None
    if "OP_ID" in given:
        raise errors.InvalidError(f"description of the cluster is not valid: it is an opcode, {given['OP_ID']}")
    # The words of an opcode are the same, "yes" for true among them.
    asked = opcodes.decode(given | {"OP_ID": "OP_CLUSTER_SET_PARAMS"})
    assert isinstance(asked, opcodes.ClusterSetParams)
    wanted = structs.replace(wanted, settings=asked)
    ranges.parse_address(wanted.primary_ip)
    set_params.applied(_bare(wanted), wanted.settings)
    return wanted


def _bare(wanted: Description, *, uuid: str = "", master: str = "", now: float = 0.0) -> cluster.Cluster:
    """Return a cluster that has no settings of its own."""
    return cluster.Cluster(uuid=uuid, name=wanted.cluster_name, ctime=now, mtime=now, master_node=master)


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
    owner = set_params.applied(_bare(wanted, uuid=inputs.uuid(), master=node.uuid, now=now), wanted.settings)
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
    owner = next(put.value for put in initial if isinstance(put.value, cluster.Cluster))
    token = _read_token(runtime, folders)
    pair = security.make_authority(wanted.cluster_name, runtime.clock.now())
    await identity.store(runtime, folders, pair)
    authority = identity.load(runtime, folders)
    tls = await identity.client_context(runtime, folders, authority, secure=secure)
    nodes = client.Client(runtime.network, tls)
    try:
        status = await _join(runtime, nodes, node, token=token, authority=authority, owner=owner)
        known = accelerators.with_status(node, status)
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
    owner: cluster.Cluster,
) -> calls.NodeStatus:
    """Give this machine's node daemon its certificate and return what it tells of itself."""
    where = _target(node)
    sleep = runtime.clock.sleep
    await enroll.join(nodes, authority, where, token=token, cluster=owner.name, sleep=sleep)
    return await nodes.call(where, accelerators.question(owner))


def _target(node: cluster.Node) -> targets.Target:
    return targets.Target(node.uuid, node.name, node.primary_ip, node.port)
