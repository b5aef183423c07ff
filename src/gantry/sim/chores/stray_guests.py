"""Somebody starts a guest by hand, outside of the cluster, and an administrator has it stopped or adopted.

The guest is that of a stopped instance, of a removed one, or it runs on another node than its instance's.
"""

import msgspec

from gantry.node.hypervisors import fake
from gantry.sim import cluster, story
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, wish

VM = "stray"
PATH = f"{cluster.FOLDERS.instances}/{fake.NAME}/{VM}"

ADOPTED = "an adopted guest has the addresses that it uses"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    first, second = await objects.nodes(stage, 2)
    kind = stage.chance.choice(["stopped", "removed", "elsewhere"])
    await objects.network(stage)
    await objects.make(stage, objects.bare(VM, first, objects.NIC, tags=["by-hand"]))
    await stage.insist(instances.start(VM))
    uuid, disk = stage.instance(VM).uuid, stage.lab.world.machine(first).disk
    if not disk.exists(PATH):
        raise stages.Unplayable(f"{VM} does not run on {first}")
    guest = disk.read(PATH)
    if kind != "elsewhere":
        await stage.insist(objects.remove(VM) if kind == "removed" else objects.stop(VM))
    where = second if kind == "elsewhere" else first
    # Nothing is promised about it from here on, except for addresses.
    stage.clients.facts.doubt([objects.key(VM)])
    try:
        if kind == "elsewhere":
            await disk.remove(PATH)
        await _start_by_hand(stage, where, guest)
        await _repair(stage, where, uuid)
    finally:
        await _tidy(stage, uuid)


async def _start_by_hand(stage: stages.Stage, name: str, guest: bytes) -> None:
    stage.story.tell(name, f"somebody starts {VM} by hand")
    machine = stage.lab.world.machine(name).disk
    await machine.make_directory(PATH.rpartition("/")[0])
    await machine.write(PATH, guest, sync=False)


async def _repair(stage: stages.Stage, name: str, uuid: str) -> None:
    key = objects.key(VM)
    look = {"OP_ID": "OP_CLUSTER_REPAIR_STRAY_GUESTS", "rule": "report"}
    await stage.succeeds(objects.verify(VM))
    await stage.succeeds(wish.single("look for stray guests", look, key, {}))
    rule = stage.chance.choice(["stop", "adopt", "adopt"])
    op = {"OP_ID": "OP_STRAY_GUEST_REPAIR", "guest_name": VM, "guest_uuid": uuid, "node_name": name, "rule": rule}
    await stage.insist(wish.single(f"{rule} {VM} on {name}", op, key, {}))
    state = stage.state()
    vm = state.instances.get(uuid)
    disk = stage.lab.world.machine(name).disk
    if rule == "adopt" and vm and state.nodes[vm.primary_node].name == name and disk.exists(PATH):
        _check_adopted({(nic.mac, ip) for nic in vm.nics for ip in nic.ip}, disk.read(PATH))


def _check_adopted(recorded: set[tuple[str, str]], guest: bytes) -> None:
    nics = msgspec.json.decode(guest, type=fake.Guest).nics
    used = {(nic.mac, address.ip) for nic in nics for address in nic.addresses}
    if not used <= recorded:
        raise story.Violation(ADOPTED, f"{VM} with {sorted(used)}", f"the state has {sorted(recorded)}")


async def _tidy(stage: stages.Stage, uuid: str) -> None:
    """Stop the guest by hand where it does not belong by the state of any master: the chore may have failed."""
    homes = set[str]()
    for daemon in stage.lab.daemons.values():
        state = daemon.store.durable
        if vm := state.instances.get(uuid):
            homes.add(state.nodes[vm.primary_node].name)
    for name in stage.lab.names:
        disk = stage.lab.world.machine(name).disk
        if name not in homes and disk.exists(PATH):
            stage.story.tell(name, f"somebody stops {VM} by hand")
            await disk.remove(PATH)
