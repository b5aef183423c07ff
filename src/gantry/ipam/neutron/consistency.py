"""Compares the driver's tables with what Neutron's subnets and ports say, and puts them right.

Neutron's own tables are the truth: they are what its users see. A difference counts only if it is seen twice, with a
pause between that is longer than a transaction: what servers are just doing looks like one. Repairing is also how an
existing Neutron gets its subnets and addresses into the driver's tables.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neutron.db import models_v2
from neutron_lib import context
from neutron_lib.db import api
from sqlalchemy import select
from sqlalchemy.orm import Session

from gantry import errors
from gantry.address import ranges
from gantry.ipam.neutron import settings
from gantry.ipam.sql import checks, driver, records, sharing


@dataclass(frozen=True)
class Report:
    """What does not fit: subnets that are not here or differ, those that Neutron does not have, and addresses."""

    subnets: frozenset[records.Subnet]
    removed: frozenset[str]
    addresses: checks.Difference

    def __bool__(self) -> bool:
        return bool(self.subnets or self.removed or self.addresses)

    def common(self, other: "Report") -> "Report":
        """Return what both say."""
        return Report(
            self.subnets & other.subnets, self.removed & other.removed, self.addresses.common(other.addresses)
        )

    def lines(self) -> Iterator[str]:
        """Yield a line for each difference."""
        for subnet in sorted(self.subnets, key=lambda known: known.id):
            yield f"subnet {subnet.id}, {subnet.cidr}: not in the driver's tables as Neutron has it"
        for gone in sorted(self.removed):
            yield f"subnet {gone}: Neutron has none of this id"
        for found in self.addresses.missing:
            yield f"{found.address} of subnet {found.subnet}: port {found.owner} has it, but it is not allocated"
        for found in self.addresses.surplus:
            yield f"{found.address} of subnet {found.subnet}: allocated, but no port has it"
        for stale in self.addresses.ranges:
            yield f"subnet {stale}: what is free does not fit what is allocated"


def check(pause: Callable[[], object]) -> Report:
    """Return what does not fit before and after a pause."""
    first = _look()
    if not first:
        return first
    pause()
    return first.common(_look())


def repair(report: Report) -> None:
    """Do away with the differences of a report."""
    with _tables(api.CONTEXT_WRITER) as (tables, _):
        known = {subnet.id for subnet in tables.subnets()}
        for subnet in report.subnets:
            change = tables.update_subnet if subnet.id in known else tables.add_subnet
            change(subnet.id, cidr=subnet.cidr, pools=subnet.pools)
        tables.repair(report.addresses)
        for gone in report.removed:
            # One of which an address was taken since the first look is left to the next repair.
            with contextlib.suppress(errors.WrongStateError):
                tables.remove_subnet(gone)


def _look() -> Report:
    with _tables(api.CONTEXT_READER) as (tables, session):
        theirs = frozenset(_subnets(session))
        ours = frozenset(tables.subnets())
        removed = {subnet.id for subnet in ours} - {subnet.id for subnet in theirs}
        found = tables.check(_allocations(session))
        # A cluster of ours that uses the same database keeps its own in order.
        clusters = {one for one in found.surplus if one.owner.startswith(sharing.CLUSTERS)}
        surplus = tuple(one for one in found.surplus if one not in clusters)
        removed -= {one.subnet for one in clusters}
        return Report(theirs - ours, frozenset(removed), dataclasses.replace(found, surplus=surplus))


@contextlib.contextmanager
def _tables(manager: api.CONTEXT_WRITER) -> Iterator[tuple[driver.Driver, Session]]:
    """Open Neutron's database, and the driver's tables wherever they are."""
    admin = context.get_admin_context()
    with manager.using(admin):
        yield settings.own() or settings.within(admin.session), admin.session


def _subnets(session: Session) -> Iterator[records.Subnet]:
    pools = defaultdict(list)
    held = models_v2.IPAllocationPool.__table__.c
    for subnet, first, last in session.execute(select(held.subnet_id, held.first_ip, held.last_ip)):
        pools[subnet].append(f"{first}-{last}")
    columns = models_v2.Subnet.__table__.c
    for subnet, cidr in session.execute(select(columns.id, columns.cidr)):
        yield records.described(subnet, cidr, pools=pools[subnet], gateway="")


def _allocations(session: Session) -> Iterator[records.Allocation]:
    columns = models_v2.IPAllocation.__table__.c
    for subnet, text, port in session.execute(select(columns.subnet_id, columns.ip_address, columns.port_id)):
        address = str(ranges.parse_address(text))
        # A port may have several addresses of a subnet; an owner has one for each key.
        yield records.Allocation(subnet, address, owner=port or "", key=address)
