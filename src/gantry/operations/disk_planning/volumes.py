"""The disks of an instance on all its nodes, as steps: create, activate, deactivate, remove, wipe, synchronize.

A mirrored disk is on two nodes. It is created and activated on both, on the primary node last, and deactivated on the
primary node first. A secondary node that is marked offline is skipped with a warning; the peer synchronizes later.
"""

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from gantry import errors
from gantry.model import instance, pairing, templates
from gantry.operations import base, fill, progress
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

POLL_INTERVAL_SECONDS = 2.0
STUCK_POLLS = 15
"""The number of polls in which a mirrored disk may be degraded without synchronizing, before the job fails."""

MEETING_POLLS = 15
"""The number of polls, a second apart, for two nodes to connect before one continues alone."""

WIPE_PART_MIB, WIPE_PARTS = 1024, 10
"""A disk is wiped in ten parts, of at most 1 GiB each."""

LOG_EVERY_POLLS = 15
"""After this many polls the job's log reports the progress of a synchronization."""

PhysicalVolumes = dict[str, tuple[tuple[str, ...], ...]]
"""By node UUID: the physical volumes for each disk."""

Sources = dict[str, tuple[str, ...]]
"""By disk UUID: the logical id of the volume or file to adopt."""


@dataclass(frozen=True)
class _Seat:
    """A node of the instance, with the disks as it sees them."""

    target: targets.Target
    primary: bool
    disks: Sequence[calls.Disk]


@dataclass
class Volumes:
    """The disks of an instance, or those of the UUIDs in ``only``; ``nodes`` restricts the nodes."""

    environment: base.Environment
    snapshot: states.Snapshot
    vm: instance.Instance
    only: Collection[str] | None = None
    nodes: Collection[str] | None = None
    ignore_secondaries: bool = False
    _seats: list[_Seat] = field(init=False)

    def __post_init__(self) -> None:
        uuids = [uuid for uuid in reversed(self.vm.nodes) if self.nodes is None or uuid in self.nodes]
        self._seats = [
            _Seat(
                self.snapshot.target(self.snapshot.nodes[uuid]),
                uuid == self.vm.primary_node,
                [
                    disk
                    for disk in fill.fill(self.snapshot, self.vm, node=uuid).disks
                    if self.only is None or disk.uuid in self.only
                ],
            )
            for uuid in uuids
        ]

    def seats(self) -> list[tuple[targets.Target, Sequence[calls.Disk]]]:
        """Return the nodes, each with the disks as it sees them."""
        return [(seat.target, seat.disks) for seat in self._seats]

    async def choose_physical_volumes(self) -> PhysicalVolumes:
        """Ask each node which physical volumes the disks shall use; raises NoRoomError before anything is created."""
        physical_volumes: PhysicalVolumes = {}
        for seat in self._seats:
            kind = seat.disks[0].dev_type if seat.disks else ""
            if kind in templates.IN_VOLUME_GROUPS:
                choose = calls.BlockdevPlace(dev_type=kind, disks=tuple(seat.disks))
                physical_volumes[seat.target.uuid] = await self._nodes.call(seat.target, choose)
        return physical_volumes

    def create(self, physical_volumes: PhysicalVolumes) -> list[base.Step]:
        """Return the steps that create the disks."""
        return [
            self._create(seat, disk, on)
            for seat in self._seats
            for disk, on in zip(
                seat.disks, physical_volumes.get(seat.target.uuid) or ((),) * len(seat.disks), strict=True
            )
        ]

    def adopt(self, sources: Sources) -> list[base.Step]:
        """Return the steps that adopt existing volumes or files as the disks."""
        return [self._adopt(seat, disk, sources[disk.uuid]) for seat in self._seats for disk in seat.disks]

    def _create(self, seat: _Seat, disk: calls.Disk, on: tuple[str, ...]) -> base.Step:
        return base.Step(
            f"create disk {disk.index} of {disk.size} MiB on {seat.target.name}",
            self._call(seat, calls.BlockdevCreate(disk=disk, owner=self.vm.name, on=on)),
            self._call(seat, calls.BlockdevRemove(disk=disk, owner=self.vm.name)),
        )

    def _adopt(self, seat: _Seat, disk: calls.Disk, source: tuple[str, ...]) -> base.Step:
        take = calls.BlockdevAdopt(disk=disk, source=source[-1], owner=self.vm.name)

        async def rename_back() -> None:
            if await self._nodes.call(seat.target, calls.BlockdevFind(disk=disk)):
                await self._nodes.call(seat.target, calls.BlockdevRename(disk=disk, to=source))

        undo = base.Procedure("renames the disk only if it was adopted", rename_back)
        return base.Step(
            f"adopt {source[-1]} on {seat.target.name} as disk {disk.index}", self._call(seat, take), (undo,)
        )

    def activate(self, *, fresh: bool = False) -> list[base.Step]:
        """Return the steps that make the disks usable; ``fresh`` disks are empty, and the primary's side is valid.

        Other disks become writable only after both nodes have compared their copies: the older copy is then updated.
        """
        open_steps = [
            base.Step(
                f"let {seat.target.name} write to disk {disk.index}",
                self._call(seat, calls.BlockdevOpen(disk=disk, force=fresh)),
            )
            for seat in self._seats
            for disk in seat.disks
            if seat.primary and disk.mirror
        ]
        return [*self.assemble(fresh=fresh), *([] if fresh else self._meet()), *open_steps]

    def assemble(self, *, fresh: bool = False, opened: bool = False) -> list[base.Step]:
        """Return the steps that set up the disks; with ``opened``, mirrored disks are writable at once.

        Their undo deactivates the disks.
        """
        return [
            base.Step(
                f"activate disk {disk.index} on {seat.target.name}",
                self._call(
                    seat,
                    calls.BlockdevAssemble(
                        disk=disk, primary=seat.primary and not fresh and (opened or not disk.mirror)
                    ),
                    lenient=True,
                ),
                self._call(seat, calls.BlockdevShutdown(disk=disk), lenient=True),
            )
            for seat in self._seats
            for disk in seat.disks
            if disk.dev_type not in templates.ALWAYS_ACTIVE
        ]

    def _meet(self) -> list[base.Step]:
        """Return the step that waits until both nodes have compared their mirrored disks, if the peer is online."""
        if all(seat.primary or seat.target.offline for seat in self._seats):
            return []
        text = f"wait until the nodes of {self.vm.name} have compared their disks"
        return [base.Step(text, self._meeting(seat)) for seat in self._seats if seat.primary and _mirrored(seat)]

    def _meeting(self, seat: _Seat) -> base.Actions:
        async def wait() -> None:
            if self.ignore_secondaries and not await self._secondaries_active():
                return
            for _ in range(MEETING_POLLS):
                disks = await self._states(seat, _mirrored(seat))
                if not any(disk and disk.connection in pairing.MEETING for disk in disks):
                    return
                await self.environment.sleep(1.0)
            self.environment.log.warning(
                f"node {seat.target.name} does not reach its peer and continues with its own copy of the disks"
            )

        return (base.Procedure("polls until the nodes have connected", wait),)

    async def _secondaries_active(self) -> bool:
        """Return whether the secondary nodes answer and have activated all mirrored disks."""
        for seat in self._seats:
            if not seat.primary:
                try:
                    disks = await self._states(seat, _mirrored(seat))
                except errors.GantryError:
                    return False
                if not all(disks):
                    return False
        return True

    async def on(self) -> None:
        """Activate the disks; if a step fails, deactivate the disks again."""
        started: list[base.Step] = []
        try:
            for step in self.activate():
                started.append(step)
                await self._perform(step.do)
        except errors.GantryError:
            for step in reversed(started):
                with contextlib.suppress(errors.GantryError):
                    await self._perform(step.undo)
            raise

    async def off(self) -> None:
        """Deactivate the disks."""
        for step in self.deactivate():
            await self._perform(step.do)

    async def _perform(self, actions: base.Actions) -> None:
        await base.perform(actions, self._nodes, self.environment.log)

    def deactivate(self) -> list[base.Step]:
        """Return the steps that deactivate the disks, on the primary node first."""
        return [
            base.Step(step.text.replace("activate", "deactivate", 1), step.undo, step.do)
            for step in reversed(self.assemble(opened=True))
        ]

    def remove(self, *, tolerant: bool = False) -> list[base.Step]:
        """Return the steps that remove the disks; ``tolerant`` turns failures into warnings. They have no undo."""
        return [self._removal(seat, disk, tolerant=tolerant) for seat in reversed(self._seats) for disk in seat.disks]

    def _removal(self, seat: _Seat, disk: calls.Disk, *, tolerant: bool) -> base.Step:
        text = f"remove disk {disk.index} of {self.vm.name}" + (f" on {seat.target.name}" if disk.mirror else "")
        actions = self._call(seat, calls.BlockdevRemove(disk=disk, owner=self.vm.name))
        if tolerant:
            actions = base.tolerant(actions, errors.GantryError, warning=f"could not {text}, which is left over")
        return base.Step(text, actions)

    def grow(self, size: int) -> list[base.Step]:
        """Return the steps that grow the disks to a size in MiB: first the volumes under mirrored disks."""
        return [
            base.Step(
                f"grow disk {disk.index} to {size} MiB on {seat.target.name}",
                self._call(seat, calls.BlockdevGrow(disk=disk, size=size, backing=backing)),
            )
            for backing in (True, False)
            for seat in self._seats
            for disk in seat.disks
            if (disk.mirror if backing else seat.primary)
        ]

    def wipe(self, *, start: int = 0) -> list[base.Step]:
        """Return the steps that overwrite the disks with zeros, beginning at ``start`` MiB, on the primary node."""
        return [
            base.Step(f"wipe disk {disk.index}", self._wipe_actions(seat, disk, start))
            for seat in self._seats
            for disk in seat.disks
            if seat.primary
        ]

    def _wipe_actions(self, seat: _Seat, disk: calls.Disk, start: int) -> base.Actions:
        async def wipe() -> None:
            part = max(1, min(WIPE_PART_MIB, (disk.size - start) // WIPE_PARTS))
            meter = progress.Meter(self.environment, f"wipe disk {disk.index}", total=disk.size - start)
            try:
                for offset in range(start, disk.size, part):
                    size = min(part, disk.size - offset)
                    await self._nodes.call(seat.target, calls.BlockdevWipe(disk=disk, offset=offset, size=size))
                    meter.report(offset + size - start)
            finally:
                meter.end()
            self.environment.log.info(f"disk {disk.index} of {self.vm.name}: wiped {disk.size - start} MiB")

        return (base.Procedure("logs the progress between many calls", wipe),)

    def wait(self) -> list[base.Step]:
        """Return the step that waits until mirrored disks are synchronized on both nodes, if there are any."""
        seats = [seat for seat in self._seats if seat.primary and _mirrored(seat)]
        text = f"wait until the disks of {self.vm.name} are synchronized on both nodes"
        return [base.Step(text, self._waiting(seat)) for seat in seats]

    def _waiting(self, seat: _Seat) -> base.Actions:
        mirrored = _mirrored(seat)

        async def wait() -> None:
            stuck = polls = 0
            while degraded := [
                (disk, state)
                for disk, state in zip(mirrored, await self._states(seat, mirrored), strict=True)
                if state is None or state.degraded
            ]:
                synchronizing = any(state and state.sync_percent is not None for _, state in degraded)
                stuck = 0 if synchronizing else stuck + 1
                if stuck > STUCK_POLLS:
                    raise errors.ExecutionError(_stuck(self.vm.name, *degraded[0]), hint="see gnt-instance info")
                line = "; ".join(_progress(disk, state) for disk, state in degraded)
                self.environment.log.progress(line)
                if polls % LOG_EVERY_POLLS == 0:
                    self.environment.log.info(line)
                polls += 1
                await self.environment.sleep(POLL_INTERVAL_SECONDS)
            self.environment.log.progress("")

        return (base.Procedure("polls until the disks are in sync", wait),)

    async def _states(self, seat: _Seat, disks: tuple[calls.Disk, ...]) -> Sequence[calls.DiskState | None]:
        return await self._nodes.call(seat.target, calls.BlockdevStatus(disks=disks))

    @property
    def _nodes(self) -> base.Nodes:
        return self.environment.nodes

    def _call(
        self, seat: _Seat, call: calls.Call[object], *, lenient: bool = False, tolerant: bool = False
    ) -> base.Actions:
        """Return the action that calls a node; ``lenient`` ignores errors of secondary nodes that may fail."""
        may_fail = lenient and not seat.primary and (seat.target.offline or self.ignore_secondaries)
        return (base.Command(seat.target, call, errors.GantryError if may_fail or tolerant else None),)


def _mirrored(seat: _Seat) -> tuple[calls.Disk, ...]:
    return tuple(disk for disk in seat.disks if disk.mirror)


def _stuck(name: str, disk: calls.Disk, state: calls.DiskState | None) -> str:
    reason = (state.problem or f"connection {state.connection}, peer {state.peer}") if state else "it is missing"
    return f"disk {disk.index} of instance {name} is degraded and does not synchronize: {reason}"


def _progress(disk: calls.Disk, state: calls.DiskState | None) -> str:
    if state is None or state.sync_percent is None:
        return f"disk {disk.index} waits for its synchronization"
    remaining = f", {state.sync_seconds} s left" if state.sync_seconds is not None else ""
    return f"disk {disk.index}: {state.sync_percent:.1f} % synchronized{remaining}"
