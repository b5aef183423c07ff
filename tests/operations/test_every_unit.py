"""Of every unit that does something outside the state: each step is repeated, and broken off before and after.

Whatever breaks, the state and the nodes are afterwards as they were (explanation/architecture.md#deciding-and-doing),
and the undo of what was begun has run in reverse. If the undo fails too, no disk of an instance has left the state. A
unit that keeps its changes on failure has no undo; its record stays.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from msgspec import structs
from tests.jobs import simulated_jobs
from tests.operations import build
from tests.state import build as state_build

from gantry import errors
from gantry.daemons import units
from gantry.ipam import embedded
from gantry.jobs import environment, execution, locks, processor, records
from gantry.model import instance, job, network, opcodes
from gantry.operations import base, fill
from gantry.operations.backup import manifest
from gantry.runtime import simulated
from gantry.state.objects import snapshot as states
from gantry.state.store import transaction

NIC = opcodes.NicSpec(ip=("pool", "192.0.2.77"), network="net1")
CREATE = opcodes.InstanceCreate(
    instance_name="new",
    os_type="plain",
    disk_template="file",
    disks=(opcodes.DiskSpec(size=64), opcodes.DiskSpec(size="1g")),
    nics=(NIC,),
)
NICS = [
    ["modify", 0, {"ip": "192.0.2.15"}],
    ["add", {"ip": "pool", "network": "net1"}],
    ["modify", 1, {"mac": "aa:00:00:00:00:77"}],
]
RENAME = opcodes.InstanceRename(instance_name="vm1", new_name="renamed")
IMPORT = opcodes.InstanceCreate(instance_name="imported", mode="import", src_path="old", pnode="node1", nics=(NIC,))
OLD = manifest.Export(
    instance="old",
    source="node3",
    timestamp=1000,
    os="other",
    compression="gzip",
    scripted=True,
    disk_template="file",
    hypervisor="fake",
    dumps=[manifest.Dump(file="dump0", size=64, digest="d"), manifest.Dump(file="dump1", size=32)],
)
FAILOVER = opcodes.InstanceFailover(instance_name="vm1", target_node="node3")
MIGRATE = opcodes.InstanceMigrate(instance_name="vm1", target_node="node3")
DISKS = [["add", {"size": 8}], ["modify", 0, {"mode": "ro"}]]
MIRROR = instance.Mirror(minors={"n1": 0, "n2": 0}, port=11000, secret="s")
PARTS = tuple(
    instance.Disk(uuid=f"d2-{part}", dev_type="plain", size=size, logical_id=("xenvg", f"d2.disk0_{part}"))
    for part, size in (("data", 64), ("meta", 128))
)
MIRRORED = instance.Instance(
    uuid="i9",
    name="mirrored",
    primary_node="n1",
    hypervisor="fake",
    disk_template="drbd",
    disks=(instance.Disk(uuid="d2", dev_type="drbd", size=64, children=PARTS, mirror=MIRROR),),
)
"""An instance that does not run, and whose disk is on node1 and node2."""

ALONE = structs.replace(MIRRORED, disk_template="plain", disks=(structs.replace(PARTS[0], uuid="d2"),))
"""The same with a volume on node1 alone."""

TO_PLAIN, TO_DRBD, TO_FILE = (
    opcodes.InstanceSetParams(instance_name="mirrored", disk_template=template)
    for template in ("plain", "drbd", "file")
)

LOOSE = instance.DetachedDisk(
    disk=instance.Disk(uuid="d7", dev_type="file", size=32, logical_id=("file", "/file/old/d7")),
    nodes=("n1",),
    instance="old",
)
COMING = [["attach", {"uuid": "d7"}], ["detach", 0, {}]]
LEAVING = [["add", {"size": 8}], ["remove", 0, {}]]

PORT = network.Port(uuid="port", name="p1", network="net", mac="fa:16:3e:00:00:01", ip=("192.0.2.18",), project="green")
FROM_PORT = structs.replace(CREATE, nics=(opcodes.NicSpec(port="p1"),))
ADD_PORT = opcodes.decode(
    {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [["add", {"port": "p1"}]]}
)
REMOVE_PORT = opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [["remove", 0, {}]]})
OF_PORT = structs.replace(
    build.VM, nics=(structs.replace(build.VM.nics[0], port=instance.PortDetails(name="p2", project="green")),)
)

SAMPLES: tuple[opcodes.Opcode, ...] = (
    CREATE,
    FROM_PORT,
    ADD_PORT,
    REMOVE_PORT,
    structs.replace(CREATE, disk_template="drbd", pnode="node1", snode="node2", start=False),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "disks": DISKS}),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "mirrored", "disks": DISKS}),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "disks": COMING}),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "disks": LEAVING}),
    TO_PLAIN,
    structs.replace(TO_DRBD, remote_node="node2"),
    TO_FILE,
    opcodes.InstanceGrowDisk(instance_name="mirrored", disk=0, amount=64),
    opcodes.InstanceActivateDisks(instance_name="mirrored"),
    opcodes.InstanceDeactivateDisks(instance_name="mirrored"),
    opcodes.InstanceReplaceDisks(instance_name="mirrored", mode="replace_new_secondary", remote_node="node3"),
    opcodes.InstanceReplaceDisks(instance_name="mirrored", mode="replace_on_secondary"),
    opcodes.InstanceStartup(instance_name="mirrored"),
    opcodes.InstanceRemove(instance_name="mirrored"),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": NICS}),
    opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [["remove", {}]]}),
    opcodes.InstanceSetParams(instance_name="vm1", beparams={"minmem": 64}, runtime_mem=96),
    opcodes.InstanceStartup(instance_name="vm1"),
    opcodes.InstanceShutdown(instance_name="vm1"),
    opcodes.InstanceReboot(instance_name="vm1", reboot_type="full"),
    opcodes.InstanceRemove(instance_name="vm1"),
    opcodes.InstanceReinstall(instance_name="vm1", os_type="other", osparams={"greeting": "hi"}),
    opcodes.BackupExport(instance_name="vm1", target_node="node2"),
    RENAME,
    IMPORT,
    opcodes.BackupRemove(instance_name="old"),
    FAILOVER,
    MIGRATE,
    opcodes.InstanceMove(instance_name="vm1", target_node="node3"),
    opcodes.NodeAdd(node_name="new", primary_ip="203.0.113.99", join_token=build.TOKEN),
    opcodes.NodeRemove(node_name="node3"),
    opcodes.NodeSetParams(node_name="node3", drained=True),
    opcodes.NodeSetParams(node_name="node3", master_candidate=True),
    opcodes.GroupSetParams(group_name="default", ndparams={"cpu_speed": 2.0}),
    opcodes.GroupAssignNodes(group_name="default", nodes=("node2",)),
    opcodes.ClusterRedistConf(),
    opcodes.ClusterRenewCrypto(),
    opcodes.ClusterRenewCrypto(cluster_certificate=True, rapi_certificate=True),
    opcodes.ClusterSetParams(candidate_pool_size=2, mac_prefix="aa:00:07"),
    opcodes.TestDelay(duration=0.5, repeat=2, on_nodes=("node1",)),
)
# Takes no cluster with instances, so it is tried on one without.
DESTROY = opcodes.ClusterDestroy()


@dataclass
class Break:
    """Which step breaks, and whether before or after it did its work; what happened is in ``events``.

    ``undoable`` is whether an undo works.
    """

    at: int
    after: bool
    events: list[str] = field(default_factory=list)
    keeps: bool = False
    stored: bool = True
    undoable: bool = True

    def end(self, finish: base.Finish) -> base.Finish:
        """Return the plan's end, or one that cannot be stored."""

        def fail(newest: states.Snapshot) -> Sequence[states.Change]:
            finish(newest)
            raise errors.StorageError("no room")

        return finish if self.stored else fail

    def wrap(self, index: int, step: base.Step, nodes: build.FakeNodes) -> base.Step:
        async def do() -> None:
            self.events.append(f"do {index}")
            if self.at != index or self.after:
                await base.perform(step.do, nodes, build.Log())
                done = nodes.state()
                await base.perform(step.do, nodes, build.Log())
                assert nodes.state() == done, f"{step.text}: a second time makes a difference"
            if self.at == index:
                raise errors.ExecutionError("broken")

        async def undo() -> None:
            self.events.append(f"undo {index}")
            if not self.undoable:
                raise errors.ExecutionError("cannot be undone")
            await base.perform(step.undo, nodes, build.Log())
            taken_back = nodes.state()
            await base.perform(step.undo, nodes, build.Log())
            assert nodes.state() == taken_back, f"{step.text}: a second undo makes a difference"

        return replace(step, do=simulated_jobs.procedure(do), undo=simulated_jobs.procedure(undo))


class Store(simulated_jobs.MemoryStore):
    """A store in memory with a ledger beside it."""

    def __init__(self, state: states.Snapshot) -> None:
        super().__init__(state)
        self.ledger = embedded.Ledger()
        self.ledger.follow(state, state, ())

    def submit(self, changes: Sequence[states.Change], cause: transaction.Cause) -> Awaitable[states.Snapshot]:
        before, ticket = self.snapshot, super().submit(changes, cause)
        self.ledger.follow(before, self.snapshot, changes)
        return ticket


class Trial:
    """The real processor over fake nodes, with a unit whose steps are wrapped."""

    def __init__(self, op: opcodes.Opcode, values: Sequence[states.Stored]) -> None:
        self.op = cast("opcodes.AnyOpcode", op)
        self.nodes = build.FakeNodes()
        self.store = Store(states.Snapshot().apply([states.Put(value) for value in values], serial=1))
        state = self.store.snapshot
        for node in state.nodes.values():
            self.nodes.machine(state.target(node)).disks = {"d1": 64}
        if "i1" in state.instances:
            whole = fill.fill(state, state.instances["i1"])
            machine = self.nodes.machine(state.target(state.nodes["n1"]))
            machine.places, machine.owners = {"d1": build.DISK.logical_id}, {"d1": "vm1"}
            for disk in state.disks.values():
                machine.disks[disk.uuid] = disk.disk.size
                machine.places[disk.uuid], machine.owners[disk.uuid] = disk.disk.logical_id, disk.instance
            machine.running, machine.plugged = {"vm1": whole}, {nic.uuid: nic for nic in whole.nics}
            machine.memory = {"vm1": int(whole.beparams["maxmem"])}
        for uuid in state.instances["i9"].nodes if "i9" in state.instances else ():
            machine = self.nodes.machine(state.target(state.nodes[uuid]))
            machine.disks |= {"d2": 64, "d2-data": 64, "d2-meta": 128}
            if isinstance(op, opcodes.InstanceDeactivateDisks):
                machine.active["d2"] = "primary" if uuid == "n1" else "secondary"
        if isinstance(op, opcodes.InstanceRename | opcodes.InstanceReinstall):
            self.nodes.machines["203.0.113.1"].running.clear()
        if isinstance(op, opcodes.InstanceCreate | opcodes.BackupRemove):
            whole = fill.fill(state, state.instances["i1"])
            self.nodes.machines["203.0.113.3"].exports["old"] = manifest.write(OLD, whole)
        if isinstance(op, opcodes.InstanceMove):
            self.nodes.machines["203.0.113.3"].disks.clear()
        self.nodes.machines["203.0.113.99"] = build.Machine(joined=False, clock=1.8e9)

    def run(self, broken: Break) -> job.Job:
        nodes, original = self.nodes, units.REGISTRY[type(self.op)]

        def plan(unit: execution.AnyUnit, snapshot: states.Snapshot, facts: object) -> base.Plan:
            wrapped_plan = original.plan(unit, snapshot, facts)
            broken.keeps = wrapped_plan.keep_on_failure
            steps = [broken.wrap(index, step, nodes) for index, step in enumerate(wrapped_plan.steps)]
            return replace(wrapped_plan, steps=steps, finish=wrapped_plan.finish and broken.end(wrapped_plan.finish))

        unit = cast("type[execution.AnyUnit]", type("Broken", (original,), {"plan": plan}))
        with simulated.World(seed=1) as world:
            runtime = world.machine("node1")
            services = environment.Services(
                nodes=nodes,
                ledger=self.store.ledger,
                authority=build.Authority(),
                runtime=runtime,
                submit=cast("environment.Submit", None),
            )
            book = records.Records(self.store, runtime.clock)
            runner = processor.Processor(book, locks.LockManager(), units={type(self.op): unit}, services=services)
            created_job = job.Job(id=1, ops=(job.Step(input=self.op),))

            async def whole() -> None:
                await self.store.submit([states.Put(created_job)], state_build.CAUSE)
                await runner.run(book.add(created_job))

            world.run(asyncio.wait_for(whole(), 1e6))
            return book.find(1).current


def _content(state: states.Snapshot) -> dict[str, object]:
    content = state_build.content(state)
    return {name: value for name, value in content.items() if name not in ("serial", "jobs", "last_job")}


def _steps(op: opcodes.Opcode, values: Sequence[states.Stored]) -> int:
    counted = Break(-1, after=False)
    trial = Trial(op, values)
    done = trial.run(counted)
    assert done.status is job.Status.SUCCESS, done.ops[0].result
    return len(counted.events)


def _values(op: opcodes.Opcode) -> list[states.Stored]:
    if getattr(op, "instance_name", "") == "mirrored" or getattr(op, "disk_template", "") == "drbd":
        owner = structs.replace(build.OWNER, enabled_disk_templates=("file", "drbd", "plain"))
        vm = ALONE if isinstance(op, opcodes.InstanceSetParams) and op.disk_template in ("drbd", "file") else MIRRORED
        return [owner if value is build.OWNER else value for value in build.FIRST] + [vm]
    if op in (FROM_PORT, ADD_PORT):
        return [*build.FIRST, PORT]
    if op == REMOVE_PORT:
        return [OF_PORT if value is build.VM else value for value in build.FIRST]
    if op in (FAILOVER, MIGRATE):
        # every node reaches its disks
        shared = structs.replace(build.VM, disk_template="diskless", disks=(), admin_state=instance.AdminState.UP)
        return [shared if value is build.VM else value for value in build.FIRST]
    if isinstance(op, opcodes.InstanceSetParams) and any(change.action == "attach" for change in op.disks):
        return [*build.FIRST, LOOSE]
    return [value for value in build.FIRST if not (op is DESTROY and isinstance(value, instance.Instance))]


CASES = [
    pytest.param(op, at, after, id=f"{op.op_id}-{at}-{'after' if after else 'before'}")
    for op in (*SAMPLES, DESTROY)
    for at in range(_steps(op, _values(op)))
    for after in (False, True)
]


@pytest.mark.parametrize(("op", "at", "after"), CASES)
def test_a_step_that_breaks_leaves_everything_as_it_was(op: opcodes.Opcode, at: int, after: bool) -> None:
    trial, broken = Trial(op, _values(op)), Break(at, after)
    before, machines = _content(trial.store.snapshot), trial.nodes.state()
    done = trial.run(broken)
    assert done.status is job.Status.ERROR
    assert done.ops[0].result == ["OpExecError", ["broken"]]
    does = [f"do {index}" for index in range(at + 1)]
    if broken.keeps:
        assert broken.events == does
        assert set(before["names"]) == set(_content(trial.store.snapshot)["names"])  # type: ignore[call-overload]
        return
    assert broken.events == does + [f"undo {index}" for index in reversed(range(at + 1))]
    assert _content(trial.store.snapshot) == before
    if not _leaves_traces(op):
        assert trial.nodes.state() == machines


@pytest.mark.parametrize(("op", "at", "after"), CASES)
def test_a_step_that_cannot_be_undone_leaves_each_instance_its_disks(op: opcodes.Opcode, at: int, after: bool) -> None:
    trial = Trial(op, _values(op))
    before = _disks(trial.store.snapshot)
    trial.run(Break(at, after, undoable=False))
    now = _disks(trial.store.snapshot)
    assert {name: disks - now.get(name, set()) for name, disks in before.items()} == {name: set() for name in before}


def _disks(state: states.Snapshot) -> dict[str, set[str]]:
    """Return the disks of each instance, by the instances' UUIDs: a job may rename an instance."""
    return {vm.uuid: {disk.uuid for disk in vm.disks} for vm in state.instances.values()}


def _leaves_traces(op: opcodes.Opcode) -> bool:
    """Files that were sent again are what they were, and a disk that has grown does not shrink."""
    return isinstance(op, opcodes.ClusterRedistConf | opcodes.InstanceGrowDisk)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.op_id) for op in (*SAMPLES, DESTROY)])
def test_an_end_that_is_not_stored_leaves_everything_as_it_was(op: opcodes.Opcode) -> None:
    trial, broken = Trial(op, _values(op)), Break(-1, after=False, stored=False)
    before, machines = _content(trial.store.snapshot), trial.nodes.state()
    done = trial.run(broken)
    if done.status is job.Status.SUCCESS:
        return
    assert done.ops[0].result == ["StorageError", ["no room"]]
    if not broken.keeps:
        assert _content(trial.store.snapshot) == before
        if not _leaves_traces(op):
            assert trial.nodes.state() == machines


WITHOUT_STEPS = {
    opcodes.AccessAdd,
    opcodes.AccessRemove,
    opcodes.TokenAdd,
    opcodes.TokenRevoke,
    opcodes.WebhookAdd,
    opcodes.WebhookRemove,
    opcodes.WebhookSetParams,
    opcodes.WebhookTest,
    opcodes.ClusterPostInit,
    opcodes.ClusterVerify,
    opcodes.GroupAdd,
    opcodes.GroupRemove,
    opcodes.GroupRename,
    opcodes.NetworkAdd,
    opcodes.NetworkConnect,
    opcodes.NetworkDisconnect,
    opcodes.NetworkRemove,
    opcodes.NetworkRename,
    opcodes.NetworkSetParams,
    opcodes.PortAdd,
    opcodes.PortRemove,
    opcodes.PortSetParams,
    opcodes.SubnetPoolAdd,
    opcodes.SubnetPoolRemove,
    opcodes.SubnetPoolSetParams,
    opcodes.SegmentDefaultsSet,
    opcodes.SegmentRangeAdd,
    opcodes.SegmentRangeRemove,
    opcodes.SegmentRangeSetParams,
    opcodes.TagsSet,
    opcodes.TagsDel,
    opcodes.TagsSearch,
    opcodes.GroupEvacuate,
    opcodes.InstanceChangeGroup,
    opcodes.InstanceConsole,
    opcodes.ClusterVerifyDisks,
    opcodes.GroupVerifyDisks,
    opcodes.NodeInvite,
    opcodes.NodeQueryInvitations,
    opcodes.NodeQueryStorage,
    opcodes.NodeQueryvols,
    opcodes.NodeRevokeInvitation,
    # its samples need a node that has lost a disk, or disks that are lost: tests of their own
    opcodes.InstanceRecreateDisks,
    opcodes.NodeModifyStorage,
    opcodes.RepairNodeStorage,
    opcodes.ClusterRepairStorage,
    # these need a guest that is not in the state: tests/operations/test_stray_guests.py
    opcodes.ClusterRepairStrayGuests,
    opcodes.StrayGuestRepair,
    opcodes.NodeEvacuate,
    opcodes.NodeMigrate,
    opcodes.InstanceQueryData,
    opcodes.OsDiagnose,
}


def test_every_unit_with_steps_has_a_sample_here() -> None:
    sampled = {type(op) for op in (*SAMPLES, DESTROY)}
    assert set(units.REGISTRY) == sampled | WITHOUT_STEPS


def test_a_dry_run_is_refused_when_the_state_would_refuse_the_changes() -> None:
    trial = Trial(opcodes.NetworkAdd(network_name="net1", dry_run=True), build.FIRST)
    done = trial.run(Break(-1, after=False))
    assert done.status is job.Status.ERROR
    assert "network net1 exists already" in str(done.ops[0].result)
