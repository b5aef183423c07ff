"""The driver: subnets, and the addresses that are allocated in them.

Neutron's driver (``ipam.neutron``) calls this module inside neutron-server, and the master in threads. A ``Driver`` is
one worker. For each subnet it remembers the address that it allocated last, and continues after that address; losing
this memory does no harm. Values are the texts of ``model.network``.

Invariant: the primary key ensures that an address is allocated at most once in a subnet, whatever the workers remember.

See contracts/neutron-ipam-driver.md#driver-interface.
"""

import copy
from collections.abc import Callable, Iterable

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import allocation, availability, checks, engines, records, requests, statements
from gantry.ipam.sql.records import Allocation, Subnet

REPAIR_HINT = "run a check for details, and a repair to recalculate the ranges"


class Driver:
    """The allocations in a database; ``below(n)`` returns a random number from 0 to n - 1."""

    def __init__(self, engine: engines.Engine, *, below: Callable[[int], int]) -> None:
        self._engine = engine
        self._worker = allocation.Worker(below)

    @property
    def lost_races(self) -> int:
        """How many times another worker changed a range first, so that this worker had to look for another range."""
        return self._worker.lost

    def on(self, engine: engines.Engine) -> "Driver":
        """Return the same worker on another engine, such as a caller's transaction."""
        other = copy.copy(self)
        other._engine = engine
        return other

    def add_subnet(self, subnet: str, *, cidr: str, pools: Iterable[str], gateway: str = "") -> Subnet:
        """Add a subnet with its availability ranges. ExistsError; InvalidError for pools that do not fit."""
        canonical = records.canonical_subnet(subnet, cidr, pools=pools, gateway=gateway)

        def work(db: statements.Statements) -> None:
            if not db.run("add_subnet", subnet=subnet, cidr=canonical.cidr, gateway=canonical.gateway):
                raise errors.ExistsError(f"subnet {subnet} already exists in the database")
            db.many("add_pool", records.pool_rows(canonical))
            availability.refresh(db, subnet)

        self._engine.change(work)
        return canonical

    def update_subnet(self, subnet: str, *, cidr: str, pools: Iterable[str], gateway: str = "") -> Subnet:
        """Change the pools, gateway or CIDR of a subnet; existing allocations are kept.

        Write nothing if nothing differs. NotFoundError; InvalidError for pools that do not fit.
        """
        canonical = records.canonical_subnet(subnet, cidr, pools=pools, gateway=gateway)

        def work(db: statements.Statements) -> None:
            if records.subnet(db, subnet) == canonical:
                return
            records.subnet_row(db, "lock", subnet)
            availability.close(db, subnet)
            db.run("change_subnet", subnet=subnet, cidr=canonical.cidr, gateway=canonical.gateway)
            db.run("remove_pools", subnet=subnet)
            db.many("add_pool", records.pool_rows(canonical))

        self._engine.change(work)
        return canonical

    def remove_subnet(self, subnet: str) -> None:
        """Remove a subnet and its ranges; NotFoundError; WrongStateError while an address is allocated."""

        def work(db: statements.Statements) -> None:
            records.subnet_row(db, "lock", subnet)
            # Workers may still take addresses while the subnet has ranges.
            availability.close(db, subnet)
            if used := db.first_row("any_allocation", subnet=subnet):
                allocated_to = f", allocated{records.to_owner(used[1])}" if used[1] else ""
                raise errors.WrongStateError(
                    f"subnet {subnet} has allocated addresses, such as {records.read(used[0])}{allocated_to}",
                    hint="deallocate them first",
                )
            db.run("remove_pools", subnet=subnet)
            db.run("remove_subnet", subnet=subnet)

        self._engine.change(work)

    def subnet(self, subnet: str) -> Subnet:
        """Return a subnet; NotFoundError."""
        return self._engine.read(lambda db: records.subnet(db, subnet))

    def subnets(self) -> list[Subnet]:
        """Return all subnets, by id."""
        return self._engine.read(lambda db: [records.subnet(db, row[0]) for row in db.all_rows("subnets")])

    def allocate(self, subnet: str, request: requests.Request, *, owner: str = "", key: str = "") -> str:
        """Return an allocated address; with an owner, the address that the owner already has under this key, if any.

        NotFoundError; NoRoomError; NotUniqueError if the address is in use, or the owner has another address under the
        key; InvalidError for an address that the subnet cannot allocate; BusyError after too many conflicts.
        """
        target = allocation.Target(subnet, owner, key)
        match request:
            case requests.AnyAddress() | requests.NextAddress():
                lowest = isinstance(request, requests.NextAddress)
                return self._engine.change(lambda db: allocation.from_pools(db, target, self._worker, lowest=lowest))
            case requests.SpecificAddress() | requests.AutomaticAddress():
                return self._engine.change(lambda db: allocation.specific(db, target, request))

    def allocate_many(self, subnet: str, count: int, *, owner: str = "") -> list[str]:
        """Return ``count`` newly allocated addresses of the pools, or allocate none; each address is its own key.

        NotFoundError, NoRoomError.
        """

        def work(db: statements.Statements) -> list[str]:
            availability.refresh(db, subnet)
            db.first_row("share", subnet=subnet)
            taken = availability.take_many(db, subnet, count, position=self._worker.position(subnet))
            allocations = [
                Allocation(subnet, text, owner, key=text if owner else "")
                for text in map(str, map(records.read, taken))
            ]
            if db.many("enter", map(records.entry, allocations)) != count:
                raise errors.ConfigurationError(
                    f"availability ranges of subnet {subnet} contain allocated addresses", hint=REPAIR_HINT
                )
            if taken:
                self._worker.continue_from(subnet, taken[-1])
            return [allocated.address for allocated in allocations]

        return self._engine.change(work)

    def deallocate(self, subnet: str, address: str, *, owner: str = "") -> bool:
        """Release an address, with ``owner`` only if that owner has it; return False if nothing was released."""
        text = records.digits(ranges.parse_address(address))

        def work(db: statements.Statements) -> bool:
            db.first_row("share", subnet=subnet)
            removed = db.run("leave", subnet=subnet, address=text, owner=owner)
            if removed:
                db.run("give", subnet=subnet, address=text)
            return bool(removed)

        return self._engine.change(work)

    def allocations(self, subnet: str) -> list[Allocation]:
        """Return the allocations of a subnet, by address; empty if the subnet does not exist."""
        return self._engine.read(lambda db: records.allocations(db, subnet))

    def allocation(self, subnet: str, address: str) -> Allocation | None:
        """Return the allocation of an address, or None."""
        text = records.digits(ranges.parse_address(address))
        row = self._engine.read(lambda db: db.first_row("holder", subnet=subnet, address=text))
        return Allocation(subnet, str(records.read(text)), *row) if row else None

    def owned(self, owner: str) -> list[Allocation]:
        """Return the allocations of an owner, by subnet and address."""
        rows = self._engine.read(lambda db: db.all_rows("owned", owner=owner))
        return [Allocation(subnet, str(records.read(address)), owner, key) for subnet, address, key in rows]

    def check(self, allocations: Iterable[Allocation]) -> checks.Difference:
        """Compare all allocations with another list, and the availability ranges with the allocations."""
        allocations = list(allocations)
        return self._engine.read(lambda db: checks.compare(db, allocations))

    def repair(self, difference: checks.Difference) -> None:
        """Add missing and remove surplus allocations; recalculate ranges. NotFoundError for an unknown subnet."""
        self._engine.change(lambda db: checks.repair(db, difference))
