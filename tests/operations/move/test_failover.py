"""Failover, with a model of mirrored disks: copies that find each other, receive, and are promoted or not."""

from dataclasses import dataclass, field
from typing import TypeVar, cast

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import instance, opcodes
from gantry.rpc import calls, targets

Result = TypeVar("Result")

LOOKS = 3
VOLUMES = tuple(
    instance.Disk(uuid=f"d1{part}", dev_type="plain", size=size, logical_id=("xenvg", f"d1_{part}"))
    for part, size in (("data", 64), ("meta", 128))
)
DISK = instance.Disk(
    uuid="d1",
    dev_type="drbd",
    size=64,
    children=VOLUMES,
    mirror=instance.Mirror(minors={"n1": 0, "n2": 0}, port=11000, secret="s"),
)
VM = structs.replace(build.VM, disk_template="drbd", disks=(DISK,), admin_state=instance.AdminState.UP)


@dataclass
class Copy:
    """A node's copy of the disk: how good it is, its end of the mirror, whether it is the primary side."""

    local: str
    mirror: calls.Mirror | None = None
    primary: bool = False


@dataclass
class Mirrors(build.FakeNodes):
    """Nodes with copies of one disk, by the node's address; a synchronisation ends after some looks.

    Nodes see each other after ``late`` looks, never when their cable is ``cut``.
    """

    copies: dict[str, Copy] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    left: int = LOOKS
    late: int = 0
    cut: bool = False
    parted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        answer = await super().call(target, call)
        return cast("Result", self._disks(target.address, call, answer))

    def _disks(self, where: str, call: calls.Call[object], answer: object) -> object:
        match call:
            case calls.BlockdevCreate():
                self.copies.setdefault(where, Copy("Inconsistent"))
            case calls.BlockdevRemove():
                self.copies.pop(where, None)
            case calls.BlockdevAssemble():
                copy = self.copies[where]
                copy.mirror = call.disk.mirror
                if call.primary:
                    self._promote(where)
            case calls.DrbdDisconnectNet():
                self.parted.add(where)
            case calls.DrbdAttachNet():
                self.parted.discard(where)
            case calls.BlockdevOpen():
                self._promote(where)
            case calls.BlockdevShutdown():
                if where in self.copies:
                    self.copies[where].mirror, self.copies[where].primary = None, False
            case calls.BlockdevFind():
                return self._state(where)
            case calls.BlockdevStatus():
                return tuple(self._state(where) for _ in call.disks)
            case calls.InstanceStart():
                assert self.copies[where].primary, "started on a disk that cannot be written to"
                self.started.append(where)
            case calls.InstanceShutdown():
                self.started = [node for node in self.started if node != where]
        assert len(set(self.started)) < 2, "it runs twice"
        return answer

    def _peer(self, where: str) -> Copy | None:
        """Return the copy that one is connected to.

        A node takes in whoever calls at its port, also one that it does not call itself; such a one is first here.
        """
        hears = () if self.cut or self.late else self.copies.keys() - self.parted
        ends = {node: disk.mirror for node, disk in self.copies.items() if disk.mirror and node in hears}
        called = {node: end.remote for node, end in ends.items() if end.remote in ends}
        met: dict[str, str] = {}
        for node, other in sorted(called.items(), key=lambda pair: called.get(pair[1]) == pair[0]):
            if ends[node].port == ends[other].port and not {node, other} & met.keys():
                met |= {node: other, other: node}
        return self.copies[met[where]] if where in met else None

    def _promote(self, where: str) -> None:
        copy, peer = self.copies[where], self._peer(where)
        if copy.local != "UpToDate" and (peer is None or peer.local != "UpToDate"):
            raise errors.BlockDeviceError("no good data to write to")
        copy.primary = True

    def _state(self, where: str) -> calls.DiskState | None:
        copy = self.copies.get(where)
        if copy is None:
            return None
        if copy.mirror is None:
            return calls.DiskState(path="", size=64, active=False)
        peer, self.late = self._peer(where), max(0, self.late - 1)
        receives = peer is not None and copy.local == "Inconsistent" and peer.local == "UpToDate"
        if peer and {copy.local, peer.local} == {"Inconsistent", "UpToDate"}:
            self.left -= 1
            behind = copy if receives else peer
            behind.local = "UpToDate" if self.left <= 0 else behind.local
        return calls.DiskState(
            path="/dev/drbd0",
            size=64,
            active=True,
            connection="WFConnection" if peer is None else "SyncTarget" if receives else "Connected",
            local=copy.local,
            peer=peer.local if peer else "DUnknown",
            degraded=peer is None or "Inconsistent" in (copy.local, peer.local),
            sync_percent=50.0 if peer and "Inconsistent" in (copy.local, peer.local) else None,
        )


A1, A2, A3 = (node.primary_ip for node in build.NODES)


class MirroredCluster(build.MemoryCluster):
    """A cluster with ``VM`` running on node1, its disk mirrored to node2."""

    def __init__(self, vm: instance.Instance = VM) -> None:
        super().__init__(*(vm if value is build.VM else value for value in build.FIRST))
        self.mirrors = Mirrors()
        self.nodes = self.environment.nodes = self.mirrors
        ends = {
            here: calls.Mirror(minor=0, local=here, remote=there, port=11000) for here, there in ((A1, A2), (A2, A1))
        }
        self.mirrors.copies = {where: Copy("UpToDate", end, primary=where == A1) for where, end in ends.items()}
        self.mirrors.started = [A1]
        units = (calls.StorageInfo(kind="plain", path="xenvg", free=5000, total=9000),)
        for node in build.NODES:
            self.machine(node.name).status = structs.replace(build.STATUS, storage=units)
        self.machine("node1").running["vm1"] = calls.Instance(
            name="vm1", uuid="i1", hypervisor="fake", beparams={"maxmem": 128, "vcpus": 1}
        )

    def offline(self, name: str) -> None:
        """Let a node be dead and marked so; whatever it ran is gone with it."""
        node = self.state.node(name)
        self.put(structs.replace(node, offline=True))
        self.mirrors.copies[node.primary_ip].mirror = None
        self.mirrors.started = [address for address in self.mirrors.started if address != node.primary_ip]

    @property
    def vm(self) -> instance.Instance:
        return self.state.instance("vm1")

    @property
    def minors(self) -> set[str]:
        mirror = self.vm.disks[0].mirror
        return set(mirror.minors) if mirror else set()


def failover(**more: object) -> opcodes.Opcode:
    return opcodes.decode({"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "vm1", **more})


async def test_without_a_target_it_goes_to_its_secondary_node_and_nothing_is_copied() -> None:
    lab = MirroredCluster()
    await lab.run(failover())
    assert (lab.vm.primary_node, lab.minors, lab.mirrors.started) == ("n2", {"n1", "n2"}, [A2])
    assert not lab.nodes.calls_of(calls.BlockdevCreate)


@pytest.mark.promise("cluster-107")
@pytest.mark.parametrize(
    ("dead", "keep", "second", "gone"),
    [
        (None, None, "n2", A1),
        (None, "primary", "n1", A2),
        (None, "secondary", "n2", A1),
        ("node1", None, "n2", A1),
        ("node2", None, "n1", A2),
    ],
)
async def test_it_goes_to_any_node_and_one_of_both_copies_stays(
    dead: str | None, keep: str | None, second: str, gone: str
) -> None:
    lab = MirroredCluster()
    if dead:
        lab.offline(dead)
    await lab.run(failover(target_node="node3", keep=keep))
    assert (lab.vm.primary_node, lab.minors) == ("n3", {"n3", second})
    assert lab.mirrors.started == [A3]
    assert lab.mirrors.copies[A3].local == "UpToDate"
    assert (gone in lab.mirrors.copies) == (dead is not None)
    # Its port is free when the new pair is recorded, and another disk may get it before the old copy is removed.
    assert lab.mirrors.parted == ({A2} if keep == "primary" else set())


@pytest.mark.promise("cluster-108")
@pytest.mark.parametrize("wait", [False, True])
async def test_it_starts_as_soon_as_the_new_copy_receives_or_when_it_is_complete(wait: bool) -> None:
    lab = MirroredCluster()
    plan = await lab.plan(failover(target_node="node3", wait_for_sync=wait))
    for step in plan.steps:
        await lab.do(step)
    assert plan.finish
    lab.change(plan.finish(lab.state))
    assert lab.mirrors.copies[A3].local == ("UpToDate" if wait else "Inconsistent")
    for step in plan.after:
        if step.text.startswith("remove disk"):
            assert lab.mirrors.copies[A3].local == "UpToDate"
        await lab.do(step)
    assert lab.mirrors.started == [A3]


async def test_an_unreachable_former_primary_does_not_become_the_new_secondary() -> None:
    lab = MirroredCluster()
    lab.machine("node2").down = True
    await lab.run(failover(target_node="node3", keep="primary"))
    assert (lab.vm.primary_node, lab.minors) == ("n3", {"n1", "n3"})
    assert (lab.mirrors.started, lab.mirrors.copies[A3].local) == ([A3], "UpToDate")


@pytest.mark.parametrize("keep", ["primary", "secondary"])
async def test_whatever_breaks_before_the_new_pair_is_recorded_it_runs_again_where_it_was(keep: str) -> None:
    op = failover(target_node="node3", keep=keep)
    count = len((await MirroredCluster().plan(op)).steps)
    for broken in range(count):
        lab = MirroredCluster()
        steps = (await lab.plan(op)).steps[: broken + 1]
        for step in steps:
            await lab.do(step)
        for step in reversed(steps):
            await lab.undo(step)
        assert lab.mirrors.started == [A1], steps[-1].text
        state = lab.mirrors._state(A1)
        assert state
        assert state.connection == "Connected"
        assert A3 not in lab.mirrors.copies


async def test_a_node_with_the_rest_of_a_migration_is_refused_before_the_instance_stops() -> None:
    lab = MirroredCluster()
    lab.machine("node2").running["vm1"] = lab.machine("node1").running["vm1"]
    error = await lab.refused(failover())
    assert "node node2 has a guest of instance vm1 already" in error.message
    assert error.hint == "gnt-instance migrate --cleanup vm1"
    assert (lab.vm.primary_node, lab.mirrors.started) == ("n1", [A1])


@pytest.mark.parametrize("local", ["Inconsistent", "Outdated", "Diskless"])
async def test_a_copy_that_is_not_complete_is_not_built_on(local: str) -> None:
    lab = MirroredCluster()
    lab.mirrors.copies[A2].local = local
    error = await lab.refused(failover(target_node="node3"))
    assert "is not a usable copy" in error.message
    assert lab.mirrors.started == [A1]


@pytest.mark.parametrize("target", [None, "node3"])
async def test_a_copy_that_may_have_missed_writes_is_not_failed_over_to(target: str | None) -> None:
    lab = MirroredCluster()
    lab.mirrors.cut = True
    error = await lab.refused(failover(target_node=target))
    assert "not connected to the primary copy" in error.message
    assert lab.mirrors.started == [A1]
    lab.mirrors.cut, lab.mirrors.late = False, 3
    await lab.run(failover(target_node=target))
    assert lab.vm.primary_node == ("n3" if target else "n2")


async def test_a_copy_that_is_behind_catches_up_before_the_better_one_is_given_up() -> None:
    lab = MirroredCluster(structs.replace(VM, admin_state=instance.AdminState.DOWN))
    lab.machine("node1").running.clear()
    lab.mirrors.started = []
    lab.mirrors.copies = {A1: Copy("UpToDate"), A2: Copy("Inconsistent")}
    await lab.run(failover(target_node="node3"))
    assert (lab.vm.primary_node, lab.minors) == ("n3", {"n2", "n3"})
    assert {where: copy.local for where, copy in lab.mirrors.copies.items()} == {A2: "UpToDate", A3: "UpToDate"}


async def test_a_disk_is_written_to_when_its_nodes_have_compared_their_copies() -> None:
    lab = MirroredCluster()
    lab.machine("node1").running.clear()
    lab.mirrors.started = []
    lab.mirrors.copies = {A1: Copy("Inconsistent"), A2: Copy("UpToDate")}
    lab.mirrors.late = 3
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    assert lab.mirrors.started == [A1]
    assert not any("does not reach" in line for line in lab.log.lines)


async def test_nodes_that_never_find_each_other_do_not_keep_an_instance_down() -> None:
    lab = MirroredCluster()
    lab.machine("node1").running.clear()
    lab.mirrors.started = []
    lab.mirrors.copies = {A1: Copy("UpToDate"), A2: Copy("UpToDate")}
    lab.mirrors.cut = True
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    assert lab.mirrors.started == [A1]
    assert any("node node1 does not reach its peer" in line for line in lab.log.lines)


async def test_a_migration_does_not_open_a_copy_that_may_have_missed_writes() -> None:
    lab = MirroredCluster()
    lab.mirrors.cut = True
    with pytest.raises(
        errors.ExecutionError,
        match="disk 0 of instance vm1 is degraded and does not synchronize: connection WFConnection, peer DUnknown",
    ):
        await lab.run(opcodes.InstanceMigrate(instance_name="vm1"))
    assert not lab.nodes.calls_of(calls.BlockdevOpen)
    assert lab.vm.primary_node == "n1"


async def test_neither_copy_left_is_refused() -> None:
    lab = MirroredCluster()
    lab.offline("node1")
    lab.offline("node2")
    assert "neither" in (await lab.refused(failover(target_node="node3"))).message


async def test_a_node_that_is_silent_is_not_taken_for_dead() -> None:
    lab = MirroredCluster()
    lab.machine("node1").down = True
    error = await lab.refused(failover(target_node="node3"))
    assert "offline yes node1" in error.hint
    lab.mirrors.started = []  # it is dead, as its user says
    await lab.run(failover(target_node="node3", ignore_consistency=True))
    assert lab.vm.primary_node == "n3"


async def test_a_volume_group_without_room_is_refused() -> None:
    lab = MirroredCluster()
    full = (calls.StorageInfo(kind="plain", path="xenvg", free=100, total=9000),)
    lab.machine("node3").status = structs.replace(build.STATUS, storage=full)
    assert "xenvg" in (await lab.refused(failover(target_node="node3"))).message


async def test_an_instance_that_is_down_stays_down() -> None:
    lab = MirroredCluster(structs.replace(VM, admin_state=instance.AdminState.DOWN))
    lab.mirrors.started = []
    lab.machine("node1").running.clear()
    await lab.run(failover(target_node="node3"))
    assert (lab.vm.primary_node, lab.mirrors.started) == ("n3", [])
    assert {where: copy.mirror for where, copy in lab.mirrors.copies.items()} == {A2: None, A3: None}


async def test_a_new_secondary_node_has_all_of_the_disks_before_the_old_one_gives_its_copy_up() -> None:
    lab = MirroredCluster()
    op = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "vm1", "mode": "replace_new_secondary"}
    plan = await lab.plan(opcodes.decode({**op, "remote_node": "node3"}))
    for step in plan.steps:
        await lab.do(step)
    assert {where: copy.local for where, copy in lab.mirrors.copies.items()} == dict.fromkeys((A1, A2, A3), "UpToDate")
    assert lab.mirrors.parted == {A2}
    for step in plan.after:
        await lab.do(step)
    assert {*lab.mirrors.copies} == {A1, A3}


@pytest.mark.promise("cluster-109")
async def test_a_migration_goes_to_no_node_without_a_copy_of_the_disks() -> None:
    lab = MirroredCluster()
    op = opcodes.InstanceMigrate(instance_name="vm1", target_node="node3")
    assert "no copy of its disks" in (await lab.refused(op)).message


@pytest.mark.promise("cluster-153")
async def test_an_evacuation_replaces_each_copy_that_its_node_keeps_by_a_job_of_its_own() -> None:
    lab = MirroredCluster()
    nic = build.VM.nics[0]
    mirror = instance.Mirror(minors={"n1": 1, "n2": 1}, port=11001, secret="t")
    second = structs.replace(
        VM,
        uuid="i2",
        name="vm2",
        nics=(structs.replace(nic, uuid="x2", mac="aa:00:00:00:00:02", ip=()),),
        disks=(structs.replace(DISK, uuid="d2", mirror=mirror),),
    )
    lab.put(second)
    jobs, more = cast(
        "tuple[list[list[opcodes.Opcode]], dict[str, object]]",
        await lab.run(opcodes.NodeEvacuate(node_name="node2", mode="secondary-only")),
    )
    assert more == {"stay": {}}
    assert (
        sorted((len(job), job[0].op_id, getattr(job[0], "remote_node", "")) for job in jobs)
        == [(1, "OP_INSTANCE_REPLACE_DISKS", "node3")] * 2
    )
