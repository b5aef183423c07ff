"""OP_OS_DIAGNOSE: the operating systems that can be installed, and what each node has of them."""

from collections.abc import Sequence

from gantry import errors
from gantry.model import cluster, fields, lock, opcodes
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

Answers = Sequence[targets.Answer[tuple[calls.OsScript, ...]]]


class OsDiagnose(base.Unit[opcodes.OsDiagnose, list[dict[str, object]]]):
    """Asks every node that takes instances; an OS is valid when all of them can install it and agree on it."""

    OPCODE = opcodes.OsDiagnose

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take nothing."""
        return {}

    async def inspect(self, snapshot: states.Snapshot) -> list[dict[str, object]]:
        """Ask the nodes; raises NotFoundError for a name that no node knows, InvalidError for an unknown field."""
        unknown = [one.name for one in fields.lookup("os", self.op.output_fields) if one.kind is fields.Kind.UNKNOWN]
        if unknown:
            raise errors.InvalidError(f"unknown output fields of os: {', '.join(unknown)}")
        nodes = [node for node in snapshot.nodes.values() if node.vm_capable and not node.offline]
        where = [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
        answers = await self.environment.nodes.fan_out(where, calls.OsDiagnose())
        found = sorted({one.name for answer in answers for one in answer.value or ()})
        rows = [_row(name, answers, owner=snapshot.the_cluster) for name in found]
        missing = [name for name in self.op.names if name not in {row["name"] for row in rows}]
        if missing:
            raise errors.NotFoundError(
                f"no such OS on any node: {', '.join(missing)}", hint="gnt-os list shows those there are"
            )
        return [row for row in rows if not self.op.names or row["name"] in self.op.names]

    def plan(self, snapshot: states.Snapshot, facts: list[dict[str, object]]) -> base.Plan:
        """Change nothing; the result is a row of the asked fields for each OS."""
        return base.Plan(result=lambda: [[row[name] for name in self.op.output_fields] for row in facts])


def _row(name: str, answers: Answers, *, owner: cluster.Cluster) -> dict[str, object]:
    by_node = {answer.target.name: [one for one in answer.value or () if one.name == name] for answer in answers}
    known = [one for found in by_node.values() for one in found]
    same = len({(one.variants, one.parameters, one.api_versions) for one in known}) == 1
    valid = same and all(found and not found[0].problem for found in by_node.values())
    first = known[0]
    kept = {*owner.hidden_os, *owner.blacklisted_os}
    offered = [f"{name}+{variant}" for variant in first.variants] or [name]
    return {
        "name": name,
        "valid": valid,
        "node_status": {
            node: [
                [one.path, not one.problem, one.problem, list(one.variants), list(one.api_versions)] for one in found
            ]
            for node, found in by_node.items()
        },
        "variants": list(first.variants),
        "parameters": [list(parameter) for parameter in first.parameters],
        "api_versions": list(first.api_versions),
        "hypervisors": list(first.hypervisors),
        "hidden": name in owner.hidden_os,
        "blacklisted": name in owner.blacklisted_os,
        "offered": [one for one in offered if one not in kept] if valid and name not in kept else [],
        "osparams": owner.osparams.get(name, {}),
        "os_hvp": owner.os_hvp.get(name, {}),
    }
