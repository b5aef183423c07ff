"""The numbers of mirrored disks, given out once: minors, by node, and ports, which are the cluster's.

They are static (contracts/cluster-design.md#drbd-minors): the configuration says who has which, so a node searches
nothing. As with addresses, the disks in the state are the record; beside it a space of used numbers for each node, and
one for the ports, follow every change, so that a free one is found at the same cost however many are in use.
``embedded.Ledger`` owns the ``Mirrors`` and passes on what changes and what is held for a running job.
"""

from dataclasses import dataclass, field

from gantry import errors
from gantry.address import pools, ranges, space
from gantry.model import instance

MINORS = ranges.Range(0, 65535)
FIRST_PORT, LAST_PORT = 11000, 14999
"""Where existing clusters have the ports of their disks, and their firewalls expect them."""


class Mirrors:
    """The used minors and ports of a state, and those held for jobs."""

    def __init__(self) -> None:
        self._spaces: dict[str, space.Space] = {}
        self._held: dict[str, dict[int, int]] = {}
        self._holds: dict[int, list[instance.Number]] = {}

    def clear(self) -> None:
        """Forget what is used; what is held stays so."""
        self._spaces = {}

    def mark(self, holder: instance.Instance | instance.DetachedDisk | None, *, used: bool) -> None:
        """Mark the numbers of an instance, or of a disk without one, as used, or as free."""
        for one in holder.numbers() if holder else ():
            numbers = self.space(one.space)
            if used:
                numbers.take(one.number)
            else:
                numbers.give(one.number)

    def hold(self, job: int, vm: instance.Instance) -> None:
        """Keep the numbers of an instance from other plans than the job's, until ``release``."""
        for one in vm.numbers():
            self._held.setdefault(one.space, {})[one.number] = job
            self._holds.setdefault(job, []).append(one)

    def release(self, job: int) -> None:
        """Let go of what is held for a job."""
        for one in self._holds.pop(job, ()):
            self.held(one.space).pop(one.number, None)

    def held(self, name: str) -> dict[int, int]:
        """Return the numbers of a space that are held, with the jobs that they are held for."""
        return self._held.setdefault(name, {})

    def space(self, name: str) -> space.Space:
        """Return the used numbers of a node, or those of ``instance.PORTS``."""
        return self._spaces.setdefault(name, space.Space())

    def picks(self) -> "Picks":
        """Return a set of picks for one plan; nothing is taken until the plan's transaction is applied."""
        return Picks(self)


@dataclass
class Picks:
    """The numbers that one plan has chosen."""

    mirrors: Mirrors
    _picked: dict[str, set[int]] = field(default_factory=dict)

    def minor(self, node: str) -> int:
        """Return a free minor of a node, which is named by its UUID; NoRoomError."""
        return self._first(node, MINORS, what=f"minors {MINORS.first} to {MINORS.last} of a node")

    def port(self) -> int:
        """Return a free port; NoRoomError."""
        run = ranges.Range(FIRST_PORT, LAST_PORT)
        return self._first(instance.PORTS, run, what=f"ports {FIRST_PORT} to {LAST_PORT}")

    def _first(self, name: str, run: ranges.Range, *, what: str) -> int:
        taken = self._picked.setdefault(name, set())
        numbers = self.mirrors.space(name)
        number = pools.first_free(numbers, run, excluded=(), taken=taken | self.mirrors.held(name).keys())
        if number is None:
            raise errors.NoRoomError(f"all {what} are taken by mirrored disks", hint="remove a mirrored disk")
        taken.add(number)
        return number
