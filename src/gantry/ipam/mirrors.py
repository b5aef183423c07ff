"""The numbers of mirrored disks, each allocated once: minors, per node, and ports, per cluster.

The numbers are static (contracts/cluster-design.md#drbd-minors): the configuration assigns them, so a node need not
search for a free number. As with addresses, the disks in the state are the record. A space of used numbers for each
node, and a space for the ports, follow every change, so the cost of an allocation does not depend on how many numbers
are in use. ``embedded.Ledger`` owns the ``Mirrors`` and passes on changes, and holds for running jobs.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from gantry import errors
from gantry.address import pools, ranges, space
from gantry.model import instance

MINORS = ranges.Range(0, 65535)
FIRST_PORT, LAST_PORT = 11000, 14999
"""The ports that disks of existing clusters use, and that their firewalls allow."""


class Mirrors:
    """The used minors and ports of a state, and those that jobs hold."""

    def __init__(self) -> None:
        self._spaces: defaultdict[str, space.Space] = defaultdict(space.Space)
        self._held: dict[str, dict[int, int]] = {}
        self._holds: dict[int, list[instance.Number]] = {}

    def clear(self) -> None:
        """Mark all numbers as not used; jobs keep the numbers that they hold."""
        self._spaces.clear()

    def mark(self, owner: instance.Instance | instance.DetachedDisk | None, *, used: bool) -> None:
        """Mark the numbers of an instance, or of a detached disk, as used or free."""
        for number in owner.numbers() if owner else ():
            numbers = self.space(number.space)
            if used:
                numbers.allocate(number.number)
            else:
                numbers.release(number.number)

    def hold(self, job: int, vm: instance.Instance) -> None:
        """Hold the numbers of an instance for a job until ``release``: no other plan allocates them."""
        for number in vm.numbers():
            self._held.setdefault(number.space, {})[number.number] = job
            self._holds.setdefault(job, []).append(number)

    def release(self, job: int) -> None:
        """End the holds of a job."""
        for number in self._holds.pop(job, ()):
            self.held_numbers(number.space).pop(number.number, None)

    def held_numbers(self, name: str) -> dict[int, int]:
        """Return the held numbers of a space, with the job that holds each."""
        return self._held.setdefault(name, {})

    def space(self, name: str) -> space.Space:
        """Return the used numbers of a node (by UUID), or the used ports (``instance.PORTS``)."""
        return self._spaces[name]

    def picks(self) -> "Picks":
        """Return the picks of a new plan; a number is in use only after the plan's transaction is applied."""
        return Picks(self)


@dataclass
class Picks:
    """The numbers that a plan has chosen."""

    mirrors: Mirrors
    _picked: dict[str, set[int]] = field(default_factory=dict)

    def minor(self, node: str) -> int:
        """Return a free minor of a node, by the node's UUID; NoRoomError."""
        return self._first(node, MINORS, what=f"minors {MINORS.first} to {MINORS.last} of a node")

    def port(self) -> int:
        """Return a free port; NoRoomError."""
        run = ranges.Range(FIRST_PORT, LAST_PORT)
        return self._first(instance.PORTS, run, what=f"ports {FIRST_PORT} to {LAST_PORT}")

    def _first(self, name: str, run: ranges.Range, *, what: str) -> int:
        picked = self._picked.setdefault(name, set())
        held_numbers = self.mirrors.held_numbers(name)
        number = pools.first_free(self.mirrors.space(name), [run], taken=held_numbers, picked=picked)
        if number is None:
            raise errors.NoRoomError(f"all {what} are in use by mirrored disks", hint="remove a mirrored disk")
        picked.add(number)
        return number
