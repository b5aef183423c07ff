"""Exports: known to the nodes, not to the state."""

from collections.abc import Sequence
from dataclasses import dataclass

from gantry.operations import base
from gantry.operations.query import cells
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


@dataclass(frozen=True)
class Row:
    """An export on a node; the export is a Missing for a node that did not answer."""

    node: str
    export: str | cells.Missing


async def objects(nodes: base.Nodes, state: states.Snapshot, names: Sequence[str | int] | None) -> list[Row]:
    """Ask all nodes, or the named ones, for their exports; sorted by node name. Raises NotFoundError."""
    chosen = [state.node(str(name)) for name in names] if names is not None else list(state.nodes.values())
    targets_by_name = [state.target(node) for node in sorted(chosen, key=lambda node: node.name)]
    rows = []
    for answer in await nodes.fan_out(targets_by_name, calls.ExportList()):
        if answer.value is None:
            rows.append(Row(answer.target.name, cells.Missing.OFFLINE if answer.offline else cells.Missing.NO_DATA))
        rows += [Row(answer.target.name, name) for name in answer.value or ()]
    return rows


GETTERS: dict[str, cells.Getter[Row]] = {
    "node": lambda _, row: row.node,
    "export": lambda _, row: row.export,
}
"""Getters by field."""
