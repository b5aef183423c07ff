"""The checks of the disks on nodes at the end of a run: files, volumes and both copies of mirrored disks.

``outcome`` calls ``check`` when the cluster has settled.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

from gantry.model import instance
from gantry.rpc import calls
from gantry.sim import cluster, facts, invariants
from gantry.sim.hardware import volumes
from gantry.sim.story import Violation
from gantry.state.objects import snapshot as states

DISKS = "nodes hold exactly the disks of the state"
COPIED = "both copies of a mirrored disk have data"
DATA = "a disk keeps the data that was written to it"
SIZES = "a disk is as large as the state says"

STORAGE = f"{cluster.FOLDERS.file_storage}"

Known = Callable[[instance.Instance, str], object]
"""Returns a field of an instance that clients know; None if they do not."""


class NodeDisks:
    """The disks of all machines; ``left_behind`` as in ``invariants``.

    Volumes of instances whose names are ``untidy`` may be left over: a job failed. Of those that are ``loose``, files
    may be left over too: a job has warned, or the end of a master interrupted it.
    """

    def __init__(
        self,
        lab: cluster.SimulatedCluster,
        state: states.Snapshot,
        *,
        known: Known,
        left_behind: invariants.LeftBehind,
        untidy: Set[str],
        loose: Set[str],
    ) -> None:
        self._lab = lab
        self._state = state
        self._known = known
        self._left_behind = left_behind
        self._untidy = untidy
        self._loose = loose

    def check(self) -> None:
        """Check all machines; raises Violation."""
        for name in self._lab.names:
            self._check_machine(name)
        for vm in sorted(self._state.instances.values(), key=lambda vm: vm.name):
            for disk in vm.disks if self._known(vm, facts.THERE) else ():
                self._check_disk(vm, disk)

    def _expected(self, name: str) -> Iterator[tuple[str, instance.Instance | None]]:
        """Yield the disks of a node by their last name, each with its instance; None for a detached disk."""
        uuid = self._state.names.get(("nodes", name), "")
        for vm in self._state.instances.values():
            if uuid in vm.nodes:
                yield from ((part, vm) for disk in vm.disks for part in invariants.parts(disk))
        for detached in self._state.disks.values():
            if uuid in detached.nodes:
                yield from ((part, None) for part in invariants.parts(detached.disk))

    def _on_disk(self, name: str) -> dict[str, str]:
        """Return the disks on a machine by their last name, each with the name of the instance of which it is."""
        disk = self._lab.world.machine(name).disk
        folders = disk.names(STORAGE) if disk.exists(STORAGE) else []
        files = {
            f"{STORAGE}/{folder}/{file}": folder for folder in folders for file in disk.names(f"{STORAGE}/{folder}")
        }
        return files | {part: _owner(volume) for part, volume in self._lab.groups[name].by_name.items()}

    def _left_over_of(self, part: str) -> Set[str]:
        """Return the names of the instances of which a disk like this may be left over."""
        return self._loose if part.startswith(STORAGE) else self._untidy

    def _not_renamed(
        self, expected: Mapping[str, instance.Instance | None], present: Collection[str]
    ) -> dict[str, str]:
        """Return the files that have their former place, by the present one: the job that should rename them failed."""
        files = {part.rpartition("/")[2]: part for part in present if part.startswith(STORAGE)}
        former = {
            part: files.get(part.rpartition("/")[2])
            for part, vm in expected.items()
            if vm and vm.name in self._untidy and part.startswith(STORAGE) and part not in present
        }
        return {part: file for part, file in former.items() if file}

    def _check_machine(self, name: str) -> None:
        expected, present = dict(self._expected(name)), self._on_disk(name)
        left_over = {part for part, owner in present.items() if owner in self._left_over_of(part)}
        elsewhere = self._not_renamed(expected, present)
        left_over |= set(elsewhere.values())
        uuid, abandoned = self._state.names.get(("nodes", name), ""), self._left_behind.things
        strange = sorted(
            part
            for part in present.keys() - expected.keys() - left_over
            if invariants.home(part, uuid) not in abandoned
        )
        if strange:
            raise Violation(DISKS, f"no disks on {name} without an owner", strange[0])
        # An acknowledged creation guarantees the disks; an loose creation was not acknowledged.
        created = {part for part, vm in expected.items() if vm and self._known(vm, facts.THERE)} - elsewhere.keys()
        if lost := created - present.keys():
            raise Violation(DISKS, f"a disk on {name}: {min(lost)}", "there is none")

    def _check_disk(self, vm: instance.Instance, disk: instance.Disk) -> None:
        primary = self._state.nodes[vm.primary_node].name
        copies = [self._state.nodes[uuid].name for uuid in vm.nodes]
        sides = {name: side for name in copies if (side := self._volume(name, disk)) is not None}
        for name, side in sides.items():
            if side.size < disk.size:
                raise Violation(SIZES, f"{disk.size} MiB of a disk of {vm.name} on {name}", f"{side.size} MiB")
        content = self._known(vm, "content") if disk is vm.disks[0] else None
        if disk.children:
            self._check_copies(vm, disk, copies)
        if content is not None and primary in sides and sides[primary].content.decode() != content:
            raise Violation(DATA, f"{content} on the disk of {vm.name} on {primary}", str(sides[primary].content))

    def _check_copies(self, vm: instance.Instance, disk: instance.Disk, copies: Iterable[str]) -> None:
        meta = f"/dev/{volumes.GROUP}/{disk.children[1].logical_id[-1]}"
        for name in copies if self._known(vm, "copied") else ():
            generation = self._lab.kernels.generation(name, meta)
            if generation is None or not generation.version:
                raise Violation(COPIED, f"data in the copy of {vm.name} on {name}", "it was never synchronized")

    def _volume(self, name: str, disk: instance.Disk) -> volumes.Volume | None:
        data = disk.children[0] if disk.children else disk
        return self._lab.groups[name].by_name.get(data.logical_id[-1]) if data.logical_id else None


def _owner(volume: volumes.Volume) -> str:
    """Return the name of the instance to which a volume belongs, by its tag."""
    names = [tag.removeprefix(calls.OWNER_TAG) for tag in volume.tags if tag.startswith(calls.OWNER_TAG)]
    return names[0] if names else ""
