"""Exports: the nodes know them, the state does not."""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry.operations import base
from gantry.operations.query import cells
from gantry.rpc import calls
from gantry.state import snapshot as states


@dataclass(frozen=True)
class Row:
    """An export on a node, or what stands for those of a node that did not answer."""

    node: str
    export: str | cells.Missing


async def objects(nodes: base.Nodes, state: states.Snapshot, wanted: Sequence[str | int] | None) -> list[Row]:
    """Ask the nodes, all or those wanted, in the order of their names; NotFoundError."""
    chosen = [state.node(str(name)) for name in wanted] if wanted is not None else list(state.nodes.values())
    where = [state.target(node) for node in sorted(chosen, key=lambda node: node.name)]
    rows = []
    for answer in await nodes.fan_out(where, calls.ExportList()):
        if answer.value is None:
            rows.append(Row(answer.target.name, cells.Missing.OFFLINE if answer.offline else cells.Missing.NO_DATA))
        rows += [Row(answer.target.name, name) for name in answer.value or ()]
    return rows


GETTERS: dict[str, cells.Getter[Row]] = {
    "node": lambda _, row: row.node,
    "export": lambda _, row: row.export,
}
"""By field."""
