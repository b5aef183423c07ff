"""Brings the ssconf files of nodes up to date, for ``gnt-cluster redist-conf``, and for the master itself.

Each node gets the digests of its files and the changed lines; files that it cannot build from those are sent whole,
to the nodes that report them. So a change costs a short message for each node, however long the files are.
"""

from collections.abc import Mapping, Sequence

from gantry import errors
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state.objects import ssconf

BATCH = 20
"""The number of nodes that get whole files at a time: each message is as long as the files."""


async def spread(
    nodes: base.Nodes,
    node_targets: Sequence[targets.Target],
    values: Mapping[str, str],
    *,
    before: Mapping[str, str] | None = None,
) -> dict[targets.Target, errors.GantryError]:
    """Update the ssconf files of nodes to ``values``; return the nodes that failed, with their errors.

    ``before`` is what most of the nodes have.
    """
    changed = ssconf.line_changes(before or {}, values)
    answers = await nodes.fan_out(node_targets, calls.UpdateSsconf(digests=ssconf.digests(values), lines=changed))
    failed = {answer.target: answer.error for answer in answers if answer.error}
    lacking: dict[tuple[str, ...], list[targets.Target]] = {}
    for answer in answers:
        if answer.value:
            lacking.setdefault(answer.value, []).append(answer.target)
    for keys, batch_targets in lacking.items():
        whole = calls.WriteSsconf(values={key: values[key] for key in keys if key in values})
        for start in range(0, len(batch_targets), BATCH):
            written = await nodes.fan_out(batch_targets[start : start + BATCH], whole)
            failed |= {answer.target: answer.error for answer in written if answer.error}
    return failed
