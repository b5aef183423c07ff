"""A small cluster in memory for the tests of the units: a state, nodes that keep what calls set, and a log.

``MemoryCluster.plan`` takes a unit as far as its plan; ``MemoryCluster.run`` does what the processor does when nothing
fails.
"""

import asyncio
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar, cast

from msgspec import structs

from gantry import errors, security
from gantry.daemons import units
from gantry.ipam import embedded, shared
from gantry.jobs import execution
from gantry.model import cluster, instance, network, opcodes
from gantry.operations import base, draws
from gantry.operations.backup import manifest
from gantry.rpc import calls, targets
from gantry.state.journal import history
from gantry.state.objects import snapshot as states

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=calls.Call[object])

AUTHORITY = security.make_authority("test", 1_750_000_000.0)
REQUEST, NEXT_REQUEST = (security.make_request("node")[1].decode() for _ in range(2))
"""The certificate requests of every machine of the cluster: for its first key, and for another one."""

OWNER = cluster.Cluster(uuid="c", name="lab.example", master_node="n1", enabled_hypervisors=("fake", "kvm"))
GROUP = cluster.NodeGroup(
    uuid="g", name="default", networks={"net": cluster.Connection(mode="bridged", link="br7", vlan="12")}
)
NODES = tuple(
    cluster.Node(uuid=f"n{i}", name=f"node{i}", primary_ip=f"203.0.113.{i}", group="g", master_candidate=i == 1)
    for i in (1, 2, 3)
)
NET = network.Network(
    uuid="net",
    name="net1",
    subnets=(
        network.Subnet(
            uuid="s4",
            cidr="192.0.2.0/24",
            gateway="192.0.2.1",
            pools=(network.Pool(range="192.0.2.10-192.0.2.19", name="lan"),),
            external=("192.0.2.50",),
        ),
        network.Subnet(uuid="s6", cidr="2001:db8::/64", pools=(network.Pool(range="2001:db8::10-2001:db8::1f"),)),
    ),
)
SPARE = network.Network(uuid="spare", name="spare")
DISK = instance.Disk(uuid="d1", dev_type="file", size=64, logical_id=("file", "/file/vm1/d1"))
VM = instance.Instance(
    uuid="i1",
    name="vm1",
    primary_node="n1",
    hypervisor="fake",
    os="plain",
    disks=(DISK,),
    nics=(instance.Nic(uuid="x1", mac="aa:00:00:00:00:01", ip=("192.0.2.10",), network="net"),),
)
FIRST: tuple[states.Stored, ...] = (OWNER, GROUP, *NODES, NET, SPARE, VM)

STATUS = calls.NodeStatus(
    bootid="b",
    memory_total=4096,
    memory_free=2048,
    memory_node=2048,
    cpu_total=4,
    storage=(calls.StorageInfo(kind="file", path="/file", free=5000, total=9000),),
    accelerator="tcg",
    accelerator_reason="there is no /dev/kvm",
)
NOW = 1000.0
TOKEN = security.JoinToken("secret", "certificate").encode()


@dataclass
class Machine:
    """What a node keeps, and what it would say."""

    joined: bool = True
    uuid: str = ""
    down: bool = False
    clock: float = NOW
    status: calls.NodeStatus = STATUS
    disks: dict[str, int] = field(default_factory=dict)
    running: dict[str, calls.Instance] = field(default_factory=dict)
    plugged: dict[str, calls.Nic] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    copy: calls.CandidateState | None = None
    complaints: dict[str, list[str]] = field(default_factory=dict)
    keeps_snapshots: bool = True
    active: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    strays: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    volumes: dict[str, list[calls.Volume]] = field(default_factory=dict)
    degraded: int = 0
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    authorities: str = ""
    key: str = ""
    exports: dict[str, str] = field(default_factory=dict)
    endings: tuple[calls.Ending, ...] = ()
    state: dict[str, str] = field(default_factory=dict)
    progress: calls.MigrationStatus = calls.MigrationStatus(status="completed")  # noqa: RUF009 - it is immutable
    systems: tuple[calls.OsScript, ...] = (
        calls.OsScript(
            name="plain",
            path="/os/plain",
            api_versions=(20,),
            parameters=(("mirror", ""), ("dns", "")),
            scripts=("create", "rename"),
        ),
        calls.OsScript(
            name="other",
            path="/os/other",
            api_versions=(20,),
            parameters=(("greeting", "What it says"),),
            scripts=("create", "export", "import", "rename"),
        ),
    )

    def answer(self, call: calls.Call[object]) -> object:
        """Do what a node daemon does for a call (``rpc.calls``)."""
        match call:
            case calls.Version():
                return calls.VersionInfo(software="test", uuid=self.uuid)
            case calls.CertificateRequest():
                return NEXT_REQUEST if call.new_key else REQUEST
            case calls.CertificateStore():
                self.authorities = call.authority
                self.key = security.facts_of(call.certificate.encode()).key if call.certificate else self.key
            case calls.NodeLeave():
                self.joined, self.uuid, self.key, self.authorities = False, "", "", ""
                self.files.clear()
            case calls.NodeInfo():
                return (
                    self.status if call.probe else structs.replace(self.status, accelerator="", accelerator_reason="")
                )
            case calls.NodeVerify():
                return self.complaints
            case calls.FileList():
                mine = {path: size for path, size in self.disks.items() if path.startswith("/file/")}
                return tuple(calls.DiskFile(path, size) for path, size in sorted(mine.items()))
            case calls.LvList():
                return tuple(self.volumes.get(call.group, ()))
            case calls.WriteSsconf():
                self.files["ssconf"] = "written"
            case calls.UpdateSsconf():
                return () if "ssconf" in self.files else tuple(call.digests)
            case calls.UploadFile():
                self.files[call.name] = call.content
            case calls.CandidateStatus():
                return self.copy
            case calls.NodeDemote():
                self.files.pop("authority.key", None)
                self.files.pop("authority.pem", None)
            case calls.OsDiagnose():
                return self.systems
            case calls.OsValidate():
                matching_systems = [system for system in self.systems if system.name == call.name]
                if not matching_systems:
                    raise errors.NotFoundError(f"no OS definition {call.name}")
                return matching_systems[0]
            case calls.BlockdevPath():
                if call.dev_type in ("file", "sharedfile"):
                    return tuple(f"/file/{call.instance}/{uuid}" for uuid in call.uuids)
                return tuple(f"{uuid}.disk{index}" for index, uuid in enumerate(call.uuids, call.first))
            case calls.BlockdevPlace():
                return (("pv1",),) * len(call.disks)
            case calls.BlockdevAdopt():
                self.disks[call.disk.uuid] = self.strays.pop(call.source, self.disks.get(call.disk.uuid, 0))
            case calls.BlockdevAssemble():
                self.active[call.disk.uuid] = (
                    "primary" if call.primary else self.active.get(call.disk.uuid, "secondary")
                )
            case calls.BlockdevOpen():
                self.active[call.disk.uuid] = "primary"
            case calls.BlockdevClose():
                self.active[call.disk.uuid] = "secondary"
            case calls.BlockdevShutdown():
                self.active.pop(call.disk.uuid, None)
            case calls.BlockdevFind():
                return self.find(call.disk)
            case calls.BlockdevStatus():
                return tuple(map(self.find, call.disks))
            case calls.BlockdevGrow():
                if not call.dry_run:
                    self.disks[call.disk.uuid] = call.size
            case calls.BlockdevSetMode():
                self.modes[call.disk.uuid] = call.disk.mode
            case calls.BlockdevRemovechildren():
                self.disks.pop(call.disk.uuid, None)
            case calls.BlockdevAddchildren():
                self.disks[call.disk.uuid] = call.disk.size
            case calls.BlockdevCreate():
                if self.disks.setdefault(call.disk.uuid, call.disk.size) != call.disk.size:
                    raise errors.ExistsError(f"disk {call.disk.uuid} exists already")
            case calls.BlockdevRemove():
                self.disks.pop(call.disk.uuid, None)
                self.active.pop(call.disk.uuid, None)
            case calls.InstanceStart():
                self.running.setdefault(call.instance.name, call.instance)
            case calls.InstanceShutdown():
                self.running.pop(call.instance.name, None)
            case calls.InstanceList():
                return tuple(_seen(vm) for vm in self.running.values() if call.names is None or vm.name in call.names)
            case calls.InstanceEndings():
                return tuple(ending for ending in self.endings if ending.name not in self.running)
            case calls.InstanceInfo():
                if call.name not in self.running:
                    return None
                return structs.replace(_seen(self.running[call.name]), state=self.state.get(call.name, "running"))
            case calls.InstanceMachine():
                return self.running.get(call.name)
            case calls.InstanceMigrationInfo():
                return "info"
            case calls.InstanceAccept():
                self.running[call.instance.name], self.state[call.instance.name] = call.instance, "incoming"
                return calls.Reception(host=call.address, port=1, secret="s")
            case calls.InstanceMigrate():
                completed = self.progress.status == "completed"
                self.state[call.instance.name] = "migrated" if completed else "migrating"
            case calls.InstanceMigrateCancel():
                self.state.pop(call.instance.name, None)
                return calls.MigrationStatus(status="cancelled")
            case calls.InstanceMigrationStatus():
                return self.progress
            case calls.InstanceFinalizeMigrationSrc() | calls.InstanceFinalizeMigrationDst():
                self.finalize(call)
            case calls.NicPlug():
                self.plugged.setdefault(call.nic.uuid, call.nic)
            case calls.NicUnplug():
                self.plugged.pop(call.nic.uuid, None)
            case calls.NicUpdate():
                self.plugged[call.nic.uuid] = call.nic
                return True
            case calls.BlockdevSnapshot():
                if not self.keeps_snapshots:
                    raise errors.WrongStateError("the file system does not support snapshots")
                self.disks[call.name.removesuffix(".snap").rpartition(".")[2]] = call.disk.size
                return "file", ("file", f"/file/{call.name}")
            case calls.BlockdevRename():
                self.places[call.disk.uuid] = call.to
            case calls.BlockdevSetinfo():
                self.owners[call.disk.uuid] = call.owner
            case calls.StreamOpen():
                return 4711
            case calls.StreamSend() | calls.StreamClose():
                return calls.Streamed(size=64, digest="d")
            case calls.StreamProgress():
                return 64 << 20
            case calls.StreamCancel():
                return ""
            case calls.ExportFinalize():
                self.exports[call.export] = call.description
            case calls.ExportList():
                return tuple(self.exports)
            case calls.ExportInfo():
                return self.exports[call.export]
            case calls.ExportDumpList():
                return tuple(dump.file for dump in manifest.read(self.exports[call.export], where="").dumps)
            case calls.ExportVerify():
                return dict.fromkeys(call.dumps, "d")
            case calls.ExportRemove():
                return self.exports.pop(call.export, None) is not None
            case calls.HooksRun():
                return ()
            case calls.InstanceBalloonMemory():
                self.memory[call.instance.name] = call.memory
                return call.memory
            case calls.InstanceConsole():
                return calls.Console(instance=call.instance.name, kind="message", message="none")
            case _:
                pass
        return None

    def finalize(self, call: calls.InstanceFinalizeMigrationSrc | calls.InstanceFinalizeMigrationDst) -> None:
        """End a migration: the guest continues here, or nothing is left of it."""
        name = call.instance.name
        coming = isinstance(call, calls.InstanceFinalizeMigrationDst)
        if coming != call.success and (not coming or self.state.get(name) == "incoming"):
            self.running.pop(name, None)
        self.state.pop(name, None)

    def find(self, disk: calls.Disk) -> calls.DiskState | None:
        """Describe a disk, or what can be adopted; a mirrored one is degraded for as many looks as ``degraded``."""
        size = self.disks.get(disk.uuid, self.strays.get(disk.logical_id[-1] if disk.logical_id else ""))
        if size is None:
            return None
        behind = disk.mirror is not None and self.degraded > 0
        self.degraded -= behind
        active = disk.uuid in self.active
        return calls.DiskState(
            path=f"/dev/{disk.uuid}",
            size=size,
            active=active,
            degraded=behind,
            connection="Connected" if active and disk.mirror else "",
            local="UpToDate" if active and disk.mirror else "",
            sync_percent=50.0 if behind else None,
            aliases=self.aliases.get(disk.logical_id[-1] if disk.logical_id else "", ()),
        )


def _seen(whole: calls.Instance) -> calls.RunningInstance:
    return calls.RunningInstance(
        name=whole.name,
        uuid=whole.uuid,
        hypervisor=whole.hypervisor,
        memory=int(whole.beparams["maxmem"]),
        vcpus=int(whole.beparams["vcpus"]),
        state="running",
        accelerator="tcg",
        hotplug=True,
        devices=(*(nic.mac for nic in whole.nics), *(disk.uuid for disk in whole.disks)),
    )


class FakeNodes:
    """``operations.base.Nodes`` over machines by address; ``made`` holds every call in order."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.made: list[tuple[str, calls.Call[object]]] = []

    def machine(self, target: targets.Target) -> Machine:
        return self.machines.setdefault(target.address, Machine())

    async def call(self, target: targets.Target, call: calls.Call[Result]) -> Result:
        await asyncio.sleep(0)
        if target.offline:
            raise errors.RemoteError(f"node {target.name} is marked offline")
        machine = self.machine(target)
        self.made.append((target.name, call))
        if machine.down or not machine.joined:
            raise errors.RemoteError(f"node {target.name} cannot be reached")
        return cast("Result", machine.answer(call))

    async def fan_out(self, where: Sequence[targets.Target], call: calls.Call[Result]) -> list[targets.Answer[Result]]:
        return [await self._answer(target, call) for target in where]

    def last_answer(self, target: targets.Target) -> float:
        return float("-inf")

    def silence(self) -> None:
        return None

    async def _answer(self, target: targets.Target, call: calls.Call[Result]) -> targets.Answer[Result]:
        try:
            return targets.Answer(target, value=await self.call(target, call))
        except errors.GantryError as error:
            return targets.Answer(target, error=error, offline=target.offline)

    async def join(self, target: targets.Target, token: str, call: calls.Call[Result]) -> Result:
        machine = self.machine(target)
        self.made.append((target.name, call))
        if machine.joined:
            raise errors.RemoteError(f"node {target.name} is a member already")
        if isinstance(call, calls.NodeClock):
            return cast("Result", machine.clock)
        if isinstance(call, calls.Enrol):
            machine.uuid = target.uuid
            machine.joined, machine.authorities = True, call.authority
            machine.key = security.facts_of(call.certificate.encode()).key
        return cast("Result", REQUEST if isinstance(call, calls.Join) else None)

    def calls_of(self, kind: type[Kind], node: str = "") -> list[Kind]:
        """Return the calls of one kind that were made, to one node or all."""
        return [call for name, call in self.made if isinstance(call, kind) and node in ("", name)]

    def state(self) -> dict[str, object]:
        """Return what the machines keep, to be compared."""
        return {address: dataclasses.asdict(machine) for address, machine in self.machines.items()}


@dataclass
class Authority:
    """An authority of the tests' own; ``certificates`` says which authorities it trusts."""

    users: str = ""
    own: security.Authority = AUTHORITY
    trusted: list[str] = field(default_factory=lambda: ["first"])
    successor: str = ""
    masters: int = 0
    remote_names: tuple[str, ...] = ()

    @property
    def certificates(self) -> str:
        return " ".join(self.trusted)

    def papers(self) -> dict[str, str]:
        own = {"authority.pem": self.certificates, "authority.key": "authority's key"}
        return own | ({"users": self.users} if self.users else {})

    def issue(self, request: str, *, uuid: str, name: str, address: str) -> str:
        return security.issue(self.own, request.encode(), uuid=uuid, name=name, address=address, now=NOW).decode()

    async def add_successor(self, cluster: str) -> None:
        self.successor = "second"
        self.trusted = ["first", "second"]

    async def drop_successor(self) -> None:
        if self.successor:
            self.successor, self.trusted = "", ["first"]

    async def switch(self) -> None:
        self.successor, self.trusted = "", ["second", "first"]

    @property
    def own_certificate(self) -> str:
        return self.trusted[0]

    async def forget_others(self) -> None:
        self.trusted = self.trusted[:1]

    async def renew_master(self) -> None:
        self.masters += 1

    async def renew_remote_api(self, *, names: Sequence[str], address: str) -> None:
        self.remote_names = tuple(names)


@dataclass
class Log:
    lines: list[str] = field(default_factory=list)
    progresses: list[str] = field(default_factory=list)

    def info(self, message: str) -> None:
        self.lines.append(message)

    def warning(self, message: str) -> None:
        self.lines.append(f"WARNING {message}")

    def progress(self, text: str) -> None:
        self.progresses.append(text)


@dataclass
class Environment:
    """``operations.base.Environment`` over a cluster in memory."""

    lab: "MemoryCluster"
    nodes: FakeNodes
    ledger: embedded.Ledger
    log: Log
    authority: Authority = field(default_factory=Authority)
    journal: history.Check = field(default_factory=history.Check)

    @property
    def addresses(self) -> shared.Shared:
        raise AssertionError("no test of the units has a database")

    @property
    def inputs(self) -> draws.Inputs:
        numbers = self.lab.numbers
        return draws.Inputs(now=NOW, uuid=lambda: f"u{next(numbers)}", below=lambda limit: next(numbers) % limit)

    async def check_journal(self) -> history.Check:
        return self.journal

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def stoppable(self) -> AbstractContextManager[Callable[[], bool]]:
        return nullcontext(lambda: self.lab.canceled)

    async def run_allocator(self, name: str, request: bytes, arguments: Sequence[str]) -> bytes:
        self.lab.requests.append((name, request, list(arguments)))
        return self.lab.allocators[name]

    def snapshot(self) -> states.Snapshot:
        return self.lab.state


class MemoryCluster:
    """A cluster of ``FIRST``, or of these objects, on which units run."""

    def __init__(self, *values: states.Stored) -> None:
        self.numbers = itertools.count(1)
        self.canceled = False
        self.allocators: dict[str, bytes] = {}
        self.requests: list[tuple[str, bytes, list[str]]] = []
        self.state = states.Snapshot()
        self.nodes = FakeNodes()
        self.ledger = embedded.Ledger()
        self.log = Log()
        self.environment = Environment(self, self.nodes, self.ledger, self.log)
        self.put(*(values or FIRST))

    def put(self, *values: states.Stored) -> None:
        self.change([states.Put(value) for value in values])

    def change(self, changes: Sequence[states.Change]) -> None:
        before = self.state
        self.state = before.apply(changes, serial=before.serial + 1)
        self.ledger.follow(before, self.state, changes)

    def machine(self, name: str) -> Machine:
        return self.nodes.machine(self.state.target(self.state.node(name)))

    def unit(self, op: opcodes.Opcode) -> execution.AnyUnit:
        return units.REGISTRY[type(op)](cast("opcodes.AnyOpcode", op), self.environment)

    async def plan(self, op: opcodes.Opcode) -> base.Plan:
        """Take a unit through locks, inspection and plan; what is planned could be committed."""
        unit = self.unit(op)
        unit.locks(self.state)
        plan = unit.plan(self.state, await unit.inspect(self.state))
        self.state.apply(plan.changes, serial=self.state.serial + 1)
        return plan

    async def do(self, step: base.Step) -> None:
        self.change(step.changes)
        await base.perform(step.do, self.nodes, self.log)

    async def undo(self, step: base.Step) -> None:
        await base.perform(step.undo, self.nodes, self.log)

    async def run(self, op: opcodes.Opcode) -> object:
        """Do what an opcode asks for and return its result."""
        plan = await self.plan(op)
        self.change(plan.changes)
        for step in plan.steps:
            await self.do(step)
        if plan.finish:
            self.change(plan.finish(self.state))
        for step in plan.after:
            await self.do(step)
        return plan.result() if plan.jobs is None else (plan.jobs, plan.result())

    async def refused(self, op: opcodes.Opcode) -> errors.GantryError:
        """Return the error that an opcode is refused with; nothing is changed anywhere."""
        before, machines = self.state, self.nodes.state()
        try:
            await self.plan(op)
        except errors.GantryError as error:
            assert self.state is before
            after = self.nodes.state()
            for address, kept in machines.items():
                assert after[address] == kept
            return error
        raise AssertionError(f"{op} was not refused")
