"""Compares the driver's tables with Neutron's subnets and ports, and repairs the driver's tables.

Neutron's own tables are authoritative: they are what its users see. A difference counts only if two comparisons find
it, with an interval between them that is longer than a transaction, because an unfinished request looks like a
difference. A repair also imports the subnets and addresses of an existing Neutron into the driver's tables.
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
    """The differences: subnets that are missing or differ, ``removed`` subnets that Neutron lacks, and addresses."""

    subnets: frozenset[records.Subnet]
    removed: frozenset[str]
    addresses: checks.Difference

    def __bool__(self) -> bool:
        return bool(self.subnets or self.removed or self.addresses)

    def common(self, other: "Report") -> "Report":
        """Return the differences that both reports have."""
        return Report(
            self.subnets & other.subnets, self.removed & other.removed, self.addresses.common(other.addresses)
        )

    def lines(self) -> Iterator[str]:
        """Yield a line for each difference."""
        for subnet in sorted(self.subnets, key=lambda subnet: subnet.id):
            yield f"subnet {subnet.id}, {subnet.cidr}: missing in the tables, or different from Neutron's subnet"
        for subnet_id in sorted(self.removed):
            yield f"subnet {subnet_id}: in the driver's tables, but not in Neutron"
        for each in self.addresses.missing:
            yield f"address {each.address} of subnet {each.subnet}: port {each.owner} has it, but it is not allocated"
        for each in self.addresses.surplus:
            yield f"address {each.address} of subnet {each.subnet}: allocated, but no port has it"
        for subnet_id in self.addresses.ranges:
            yield f"subnet {subnet_id}: its availability ranges do not match its allocations"


def check(wait: Callable[[], object]) -> Report:
    """Return the differences that exist both before and after a call of ``wait``."""
    first = _compare()
    if not first:
        return first
    wait()
    return first.common(_compare())


def repair(report: Report) -> None:
    """Repair the differences of a report."""
    with _tables(api.CONTEXT_WRITER) as (tables, _):
        stored_ids = {subnet.id for subnet in tables.subnets()}
        for subnet in report.subnets:
            change = tables.update_subnet if subnet.id in stored_ids else tables.add_subnet
            change(subnet.id, cidr=subnet.cidr, pools=subnet.pools)
        tables.repair(report.addresses)
        for subnet_id in report.removed:
            # A subnet with an address allocated since the first comparison stays until the next repair.
            with contextlib.suppress(errors.WrongStateError):
                tables.remove_subnet(subnet_id)


def _compare() -> Report:
    with _tables(api.CONTEXT_READER) as (tables, session):
        neutron_subnets = frozenset(_subnets(session))
        stored_subnets = frozenset(tables.subnets())
        removed = {subnet.id for subnet in stored_subnets} - {subnet.id for subnet in neutron_subnets}
        difference = tables.check(_allocations(session))
        # A Gantry cluster that uses the same database manages its own allocations.
        clusters = {each for each in difference.surplus if each.owner.startswith(sharing.CLUSTERS)}
        surplus = tuple(each for each in difference.surplus if each not in clusters)
        removed -= {each.subnet for each in clusters}
        return Report(
            neutron_subnets - stored_subnets, frozenset(removed), dataclasses.replace(difference, surplus=surplus)
        )


@contextlib.contextmanager
def _tables(manager: api.CONTEXT_WRITER) -> Iterator[tuple[driver.Driver, Session]]:
    """Open Neutron's database, and the driver's tables in this or their own database."""
    admin = context.get_admin_context()
    with manager.using(admin):
        yield settings.own() or settings.within(admin.session), admin.session


def _subnets(session: Session) -> Iterator[records.Subnet]:
    pools = defaultdict(list)
    pool_columns = models_v2.IPAllocationPool.__table__.c
    for subnet, first, last in session.execute(
        select(pool_columns.subnet_id, pool_columns.first_ip, pool_columns.last_ip)
    ):
        pools[subnet].append(f"{first}-{last}")
    columns = models_v2.Subnet.__table__.c
    for subnet, cidr in session.execute(select(columns.id, columns.cidr)):
        yield records.canonical_subnet(subnet, cidr, pools=pools[subnet], gateway="")


def _allocations(session: Session) -> Iterator[records.Allocation]:
    columns = models_v2.IPAllocation.__table__.c
    for subnet, text, port in session.execute(select(columns.subnet_id, columns.ip_address, columns.port_id)):
        address = str(ranges.parse_address(text))
        # A port may have several addresses of a subnet; an owner has one for each key.
        yield records.Allocation(subnet, address, owner=port or "", key=address)
