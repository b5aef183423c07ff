"""The end of a cluster, after all checks of a run: it is destroyed, once nothing is in it any more.

``scenario`` calls ``destroy`` in some runs with chores, when there are no faults any more.
"""

import contextlib

import msgspec

from gantry import errors
from gantry.sim import cluster, invariants
from gantry.sim.story import Violation

NOT_EMPTY = "a cluster with instances or detached disks is not destroyed"
GONE = "a destroyed cluster leaves no certificate, no guest and no master"

SETTLE_SECONDS = 60.0
DESTROY: cluster.Opcode = {"OP_ID": "OP_CLUSTER_DESTROY"}
STOP_STRAYS: cluster.Opcode = {"OP_ID": "OP_CLUSTER_REPAIR_STRAY_GUESTS", "rule": "stop"}


async def destroy(lab: cluster.SimulatedCluster) -> None:
    """Destroy a cluster with one master and no faults, and check what remains; raises Violation."""
    (name,) = lab.masters()
    state = lab.daemons[name].store.durable
    if state.instances or state.disks:
        status, _ = await lab.wait(await lab.submit(DESTROY, on=name), on=name)
        if status == "success" or name not in lab.masters():
            raise Violation(NOT_EMPTY, "a refusal", f"the job ended with {status}")
    for vm in state.instances.values():
        if lab.masters() != [name]:
            return
        op = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": vm.name, "shutdown_timeout": 0, "ignore_failures": True}
        await lab.wait(await lab.submit(op, on=name), on=name)
    state = lab.daemons[name].store.durable
    if state.instances or state.disks:
        return
    await _stop_strays(lab, name)
    strays = [guest.running.name for node in state.nodes.values() for guest in invariants.guests(lab, node.name)]
    log = ""
    with contextlib.suppress(OSError, errors.GantryError):
        # The master may have ended before its answer.
        number = await lab.submit(DESTROY, on=name)
        status, _ = await lab.wait(number, on=name)
        if status == "error" and strays:
            return
        log = str(await lab.luxi("QueryJobs", [number], ["oplog"], on=name))
    await lab.world.clock.sleep(SETTLE_SECONDS)
    if masters := lab.masters():
        raise Violation(GONE, "no master", ", ".join(masters))
    for node in state.nodes.values():
        # A node that was not notified has to be cleaned by hand, as the log says.
        if not log or f"{node.name} was not notified" in log:
            continue
        if lab.world.machine(node.name).disk.exists(f"{cluster.FOLDERS.certificates}/node.pem"):
            raise Violation(GONE, f"no certificate on {node.name}", "it has one")
        if guests := [guest.running.name for guest in invariants.guests(lab, node.name)]:
            raise Violation(GONE, f"no guest on {node.name}", guests[0])


async def _stop_strays(lab: cluster.SimulatedCluster, name: str) -> None:
    """Stop the guests of abandoned histories: a node that runs one does not leave."""
    status, results = await lab.wait(await lab.submit(STOP_STRAYS, on=name), on=name)
    if status != "success":
        return
    (result,) = msgspec.convert(results, tuple[dict[str, object]])
    for submitted, number in msgspec.convert(result["jobs"], list[tuple[bool, int]]):
        if submitted:
            await lab.wait(number, on=name)
