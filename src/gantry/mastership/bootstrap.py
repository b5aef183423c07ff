"""``gantry-masterd init``: creates a cluster of one node on a machine whose node daemon runs and has not joined yet.

``gnt-cluster init`` calls it with the cluster's description as JSON on standard input. The order of the steps allows a
second attempt after any failure: check everything, create the authority, join the node daemon, write the state last.
"""

import contextlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.mastership import identity
from gantry.model import cluster, opcodes
from gantry.operations.cluster import settings
from gantry.operations.node import accelerators, enroll
from gantry.rpc import calls, client, targets
from gantry.runtime import interface, paths
from gantry.state.objects import snapshot
from gantry.state.start import creation


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a new cluster; ``settings`` are the settings that ``gnt-cluster modify`` can change."""

    cluster_name: opcodes.Name
    node_name: opcodes.Name
    primary_ip: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1811
    settings: opcodes.ClusterSetParams = opcodes.ClusterSetParams()


def decode(data: bytes) -> Description:
    """Decode and check a description, an object with the names and the settings; raises InvalidError."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, object])
        keys = ("cluster_name", "node_name", "primary_ip", "port")
        names = {name: fields.pop(name) for name in keys if name in fields}
        description = msgspec.convert(names, Description, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidError(f"description of the cluster is not valid: {errors.readable(str(error))}") from None
    if "OP_ID" in fields:
        raise errors.InvalidError(f"description of the cluster is not valid: it is an opcode, {fields['OP_ID']}")
    # The settings have the syntax of the opcode, such as "yes" for true.
    opcode = opcodes.decode(fields | {"OP_ID": "OP_CLUSTER_SET_PARAMS"})
    assert isinstance(opcode, opcodes.ClusterSetParams)
    description = structs.replace(description, settings=opcode)
    enroll.check_name(description.node_name)
    ranges.parse_address(description.primary_ip)
    settings.applied(_bare(description), description.settings)
    return description


def _bare(description: Description, *, uuid: str = "", master: str = "", now: float = 0.0) -> cluster.Cluster:
    """Return a cluster with default settings."""
    return cluster.Cluster(uuid=uuid, name=description.cluster_name, ctime=now, mtime=now, master_node=master)


def objects(description: Description, inputs: interface.Randomness, now: float) -> list[snapshot.Put]:
    """Return the first objects of a cluster: its node group, its node and the cluster."""
    group = cluster.NodeGroup(uuid=inputs.uuid(), name="default", ctime=now, mtime=now)
    node = cluster.Node(
        uuid=inputs.uuid(),
        name=description.node_name,
        ctime=now,
        mtime=now,
        primary_ip=str(ranges.parse_address(description.primary_ip)),
        port=description.port,
        group=group.uuid,
        master_candidate=True,
    )
    owner = settings.applied(_bare(description, uuid=inputs.uuid(), master=node.uuid, now=now), description.settings)
    return [snapshot.Put(group), snapshot.Put(node), snapshot.Put(owner)]


async def init(
    runtime: interface.Runtime, folders: paths.Paths, description: Description, *, secure: bool = True
) -> None:
    """Create the cluster. Raises ExistsError if there is one, EnvironmentFaultError without a node daemon.

    ``secure`` as in ``identity.Credentials``. The master's certificate is for the key of this machine's node, which the
    node makes when it joins.
    """
    check_new(runtime, folders)
    initial = [put.value for put in objects(description, runtime.random, runtime.clock.now())]
    node = next(value for value in initial if isinstance(value, cluster.Node))
    await establish(runtime, folders, initial, node=node, reason="cluster created", secure=secure)


def check_new(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Raise ExistsError if this machine has a cluster."""
    if runtime.disk.exists(folders.config):
        raise errors.ExistsError(
            f"this machine already has a cluster: {folders.config}", hint="gnt-cluster destroy removes it"
        )


async def establish(
    runtime: interface.Runtime,
    folders: paths.Paths,
    initial: Sequence[snapshot.Stored],
    *,
    node: cluster.Node,
    reason: str,
    last_job: int = 0,
    secure: bool = True,
) -> None:
    """Make the authority for these first objects, let its ``node``, this machine, join; write the state."""
    owner = next(value for value in initial if isinstance(value, cluster.Cluster))
    token = _read_token(runtime, folders)
    authority = await identity.create(runtime, folders, owner.name)
    credentials = identity.Credentials(runtime, folders, authority, secure=secure)
    nodes = client.Client(runtime.network, credentials.context)
    try:
        request = await enroll.certificate_request(
            nodes, _target(node), token=token, cluster=owner.name, now=runtime.clock.now()
        )
        certificate = await enroll.send_certificate(nodes, authority, _target(node), request=request, token=token)
        await credentials.renew()
        await nodes.reconnect(credentials.context)
        await enroll.wait(nodes, _target(node), runtime.clock.sleep)
        status = await nodes.call(_target(node), accelerators.question(owner))
        known = structs.replace(accelerators.with_status(node, status), certificate=certificate)
        changes = [snapshot.Put(known if value is node else value) for value in initial]
        await creation.create(runtime, folders, changes, reason=reason, last_job=last_job)
    except errors.GantryError:
        # The node daemon may have joined already; it must leave, so that a second attempt finds it as the first did.
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
            f"no node daemon on this machine is ready to join: {path} does not exist", hint="start gantry-noded first"
        ) from None


def _target(node: cluster.Node) -> targets.Target:
    return targets.Target(node.uuid, node.name, node.primary_ip, node.port)
