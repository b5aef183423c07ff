"""The driver: subnets, and the addresses that are allocated in them.

Who calls it: Neutron's driver (``ipam.neutron``) inside neutron-server, and the master in threads. A ``Driver`` is one
worker: it remembers, for each subnet, where it took the last address, and goes on from there; losing that costs
nothing. Values are the texts of ``model.network``.

Invariant: an address is allocated at most once in a subnet, by the primary key, whatever workers believe.

See contracts/neutron-ipam-driver.md#driver-interface.
"""

import copy
from collections.abc import Callable, Iterable

from gantry import errors
from gantry.address import ranges
from gantry.ipam.sql import allocation, availability, checks, engines, records, requests, statements
from gantry.ipam.sql.records import Allocation, Subnet

REPAIR = "a check tells more, a repair makes them anew"


class Driver:
    """Allocations of the subnets in one database; ``below`` draws numbers, as ``Runtime.random.below`` does."""

    def __init__(self, engine: engines.Engine, *, below: Callable[[int], int]) -> None:
        self._engine = engine
        self._worker = allocation.Worker(below)

    @property
    def lost_races(self) -> int:
        """How often another worker was quicker at a range, and another range was looked for."""
        return self._worker.lost

    def on(self, engine: engines.Engine) -> "Driver":
        """Return the same worker at another engine, such as the transaction of a caller."""
        other = copy.copy(self)
        other._engine = engine
        return other

    def add_subnet(self, subnet: str, *, cidr: str, pools: Iterable[str], gateway: str = "") -> Subnet:
        """Add a subnet, and make its availability ranges. ExistsError; InvalidError for pools that do not fit."""
        described = records.described(subnet, cidr, pools=pools, gateway=gateway)

        def work(db: statements.Statements) -> None:
            if not db.run("add_subnet", subnet=subnet, cidr=described.cidr, gateway=described.gateway):
                raise errors.ExistsError(f"the database has a subnet {subnet} already")
            db.many("add_pool", records.pool_rows(described))
            availability.refresh(db, subnet)

        self._engine.change(work)
        return described

    def update_subnet(self, subnet: str, *, cidr: str, pools: Iterable[str], gateway: str = "") -> Subnet:
        """Give a subnet other pools, another gateway, or in place another CIDR; what is allocated stays so.

        Nothing is written if nothing differs. NotFoundError; InvalidError for pools that do not fit.
        """
        described = records.described(subnet, cidr, pools=pools, gateway=gateway)

        def work(db: statements.Statements) -> None:
            if records.subnet(db, subnet) == described:
                return
            records.subnet_row(db, "lock", subnet)
            availability.close(db, subnet)
            db.run("change_subnet", subnet=subnet, cidr=described.cidr, gateway=described.gateway)
            db.run("remove_pools", subnet=subnet)
            db.many("add_pool", records.pool_rows(described))

        self._engine.change(work)
        return described

    def remove_subnet(self, subnet: str) -> None:
        """Remove a subnet and its ranges; NotFoundError, WrongStateError while an address is allocated."""

        def work(db: statements.Statements) -> None:
            records.subnet_row(db, "lock", subnet)
            # Only without ranges is nobody about to take from them.
            availability.close(db, subnet)
            if used := db.one("any_allocation", subnet=subnet):
                raise errors.WrongStateError(
                    f"addresses of subnet {subnet} are held, {records.read(used[0])}{records.by(used[1])} among them",
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
        return self._engine.read(lambda db: [records.subnet(db, row[0]) for row in db.all("subnets")])

    def allocate(self, subnet: str, request: requests.Request, *, owner: str = "", key: str = "") -> str:
        """Return an address that nobody else has; the one that the owner has under this key, if there is an owner.

        NotFoundError; NoRoomError; NotUniqueError if it is taken, or the owner has another one under the key;
        InvalidError for an address that the subnet cannot give; BusyError when others were quicker again and again.
        """
        wish = allocation.Wish(subnet, owner, key)
        match request:
            case requests.AnyAddress() | requests.NextAddress():
                lowest = isinstance(request, requests.NextAddress)
                return self._engine.change(lambda db: allocation.from_pools(db, wish, self._worker, lowest=lowest))
            case requests.SpecificAddress() | requests.AutomaticAddress():
                return self._engine.change(lambda db: allocation.specific(db, wish, request))

    def allocate_many(self, subnet: str, count: int, *, owner: str = "") -> list[str]:
        """Return so many addresses of the pools, or none of them; an owner has each under the address as the key.

        NotFoundError, NoRoomError.
        """

        def work(db: statements.Statements) -> list[str]:
            availability.refresh(db, subnet)
            db.one("share", subnet=subnet)
            taken = availability.take_many(db, subnet, count, place=self._worker.place(subnet))
            made = [
                Allocation(subnet, text, owner, key=text if owner else "")
                for text in map(str, map(records.read, taken))
            ]
            if db.many("enter", map(records.entry, made)) != count:
                raise errors.ConfigurationError(f"ranges of subnet {subnet} have addresses that are taken", hint=REPAIR)
            if taken:
                self._worker.stay(subnet, taken[-1])
            return [allocated.address for allocated in made]

        return self._engine.change(work)

    def deallocate(self, subnet: str, address: str, *, owner: str = "") -> bool:
        """Make an address free again, if the owner has it where one is given; False if there was nothing to do."""
        text = records.digits(ranges.parse_address(address))

        def work(db: statements.Statements) -> bool:
            db.one("share", subnet=subnet)
            left = db.run("leave", subnet=subnet, address=text, owner=owner)
            if left:
                db.run("give", subnet=subnet, address=text)
            return bool(left)

        return self._engine.change(work)

    def allocations(self, subnet: str) -> list[Allocation]:
        """Return what is allocated in a subnet, by address; nothing of one that does not exist."""
        return self._engine.read(lambda db: records.allocations(db, subnet))

    def allocation(self, subnet: str, address: str) -> Allocation | None:
        """Return who has an address, or None."""
        text = records.digits(ranges.parse_address(address))
        row = self._engine.read(lambda db: db.one("holder", subnet=subnet, address=text))
        return Allocation(subnet, str(records.read(text)), *row) if row else None

    def owned(self, owner: str) -> list[Allocation]:
        """Return what an owner has, by subnet and address."""
        rows = self._engine.read(lambda db: db.all("owned", owner=owner))
        return [Allocation(subnet, str(records.read(address)), owner, key) for subnet, address, key in rows]

    def check(self, truth: Iterable[Allocation]) -> checks.Difference:
        """Compare all allocations with another list, and the availability ranges with what they have to be."""
        wanted = list(truth)
        return self._engine.read(lambda db: checks.compare(db, wanted))

    def repair(self, difference: checks.Difference) -> None:
        """Add what is missing, remove what is surplus; ranges are made anew. NotFoundError for an unknown subnet."""
        self._engine.change(lambda db: checks.repair(db, difference))
