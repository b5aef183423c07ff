"""OP_OS_DIAGNOSE: list the operating systems that can be installed, with their state on each node."""

from collections.abc import Sequence

from gantry import errors
from gantry.model import cluster, fields, lock, opcodes
from gantry.operations import base
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

Answers = Sequence[targets.Answer[tuple[calls.OsScript, ...]]]


class OsDiagnose(base.Unit[opcodes.OsDiagnose, list[dict[str, object]]]):
    """Asks every vm_capable node; an OS is valid if all nodes that answer have the same valid definition."""

    OPCODE = opcodes.OsDiagnose
    READS = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock nothing."""
        return {}

    async def inspect(self, snapshot: states.Snapshot) -> list[dict[str, object]]:
        """Ask the nodes; raises NotFoundError for a name that no node knows, InvalidError for an unknown field."""
        unknown = [
            field.name for field in fields.lookup("os", self.op.output_fields) if field.kind is fields.Kind.UNKNOWN
        ]
        if unknown:
            raise errors.InvalidError(f"unknown output fields of os: {', '.join(unknown)}")
        nodes = [node for node in snapshot.nodes.values() if node.vm_capable and not node.offline]
        targets_online = [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
        answers = await liveness.read(self.environment.nodes, targets_online, calls.OsDiagnose())
        names = sorted({definition.name for answer in answers for definition in answer.value or ()})
        rows = [_row(name, answers, the_cluster=snapshot.the_cluster) for name in names]
        missing = [name for name in self.op.names if name not in {row["name"] for row in rows}]
        if missing:
            raise errors.NotFoundError(
                f"no node has an OS named {', '.join(missing)}", hint="gnt-os list shows the operating systems"
            )
        return [row for row in rows if not self.op.names or row["name"] in self.op.names]

    def plan(self, snapshot: states.Snapshot, facts: list[dict[str, object]]) -> base.Plan:
        """Change nothing; the result is a row of the requested fields for each OS."""
        return base.Plan(result=lambda: [[row[name] for name in self.op.output_fields] for row in facts])


def _row(name: str, answers: Answers, *, the_cluster: cluster.Cluster) -> dict[str, object]:
    by_node = {
        answer.target.name: [definition for definition in answer.value if definition.name == name]
        for answer in answers
        if answer.value is not None
    }
    without_answer = {answer.target.name: str(answer.error) for answer in answers if answer.value is None}
    known = [definition for definitions in by_node.values() for definition in definitions]
    same = len({(definition.variants, definition.parameters, definition.api_versions) for definition in known}) == 1
    valid = same and all(definitions and not definitions[0].problem for definitions in by_node.values())
    first = known[0]
    unavailable = {*the_cluster.hidden_os, *the_cluster.blacklisted_os}
    offered = [f"{name}+{variant}" for variant in first.variants] or [name]
    return {
        "name": name,
        "valid": valid,
        "node_status": {
            node: [
                [
                    definition.path,
                    not definition.problem,
                    definition.problem,
                    list(definition.variants),
                    list(definition.api_versions),
                ]
                for definition in definitions
            ]
            for node, definitions in by_node.items()
        }
        | {node: [["", False, problem, [], []]] for node, problem in without_answer.items()},
        "variants": list(first.variants),
        "parameters": [list(parameter) for parameter in first.parameters],
        "api_versions": list(first.api_versions),
        "hypervisors": list(first.hypervisors),
        "hidden": name in the_cluster.hidden_os,
        "blacklisted": name in the_cluster.blacklisted_os,
        "offered": [offer for offer in offered if offer not in unavailable]
        if valid and name not in unavailable
        else [],
        "osparams": the_cluster.osparams.get(name, {}),
        "os_hvp": the_cluster.os_hvp.get(name, {}),
    }
