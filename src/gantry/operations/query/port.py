"""Getters of the fields of ports, subnets and subnet pools: the columns of ``network.views``, and what is counted.

What a subnet has free is computed only for who asks for it; it costs nothing that grows with what is in use.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from gantry.address import ranges
from gantry.model import network
from gantry.operations.network import views
from gantry.operations.query import cells

T = TypeVar("T")


def of_columns(columns: Mapping[str, views.Column[T]]) -> dict[str, cells.Getter[T]]:
    """Return the getters for columns, whose values are always there."""
    return {name: _getter(column) for name, column in columns.items()}


def _getter(column: views.Column[T]) -> cells.Getter[T]:
    return lambda context, one: column(context.state, one)


def _counted(count: Callable[[int, int], int]) -> cells.Getter[views.Placed]:
    """Return the getter that makes one number of how large the pools of a subnet are and how much of them is free."""

    def get(context: cells.Context, one: views.Placed) -> int:
        net, subnet = one
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
