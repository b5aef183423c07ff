"""Getters of the fields of ports, subnets and subnet pools: the columns of ``network.views``, and counts.

The free addresses of a subnet are computed only on request; the cost does not grow with the addresses in use.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from gantry.address import ranges
from gantry.model import network
from gantry.operations.network import views
from gantry.operations.query import cells

T = TypeVar("T")


def of_columns(columns: Mapping[str, views.Column[T]]) -> dict[str, cells.Getter[T]]:
    """Return the getters for columns, whose values are never missing."""
    return {name: _getter(column) for name, column in columns.items()}


def _getter(column: views.Column[T]) -> cells.Getter[T]:
    return lambda context, entity: column(context.state, entity)


def _counted(count: Callable[[int, int], int]) -> cells.Getter[views.Placed]:
    """Return the getter that computes a number from the size of a subnet's pools and their free addresses."""

    def get(context: cells.Context, entry: views.Placed) -> int:
        net, subnet = entry
        size = sum(ranges.known_range(pool.range)[1].size for pool in subnet.pools)
        free = sum(context.ledger.view(net, subnet, pool).free for pool in subnet.pools)
        return count(size, free)

    return get


PORT: dict[str, cells.Getter[network.Port]] = of_columns(views.PORT)
SUBNET: dict[str, cells.Getter[views.Placed]] = {
    **of_columns(views.SUBNET),
    "free_count": _counted(lambda size, free: free),
    "reserved_count": _counted(lambda size, free: size - free),
}
SUBNET_POOL: dict[str, cells.Getter[network.SubnetPool]] = of_columns(views.SUBNET_POOL)
