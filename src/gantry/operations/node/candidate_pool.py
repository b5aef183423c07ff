"""The pool of master candidates: which nodes it needs, what a candidate stores, and how it gives that up.

Shared by the units that change nodes or the pool's size. The pool is kept at ``candidate_pool_size``, as far as there
are eligible nodes (contracts/cluster-design.md#node-flags); the master counts. A candidate receives the authority's
secrets before the flag, because a copy of the state without them cannot make a master; the copy itself follows the
flag. A node that lost the flag on request may be chosen again later; ``master_capable`` excludes a node permanently.
"""

from collections.abc import Collection

from gantry import errors
from gantry.model import cluster, lock
from gantry.operations import base
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states

POOL = (lock.Level.CONFIG, "candidates")
"""The lock for filling or emptying the pool: another change must not remove a node that is being chosen."""


def missing(snapshot: states.Snapshot, *, without: Collection[str] = ()) -> int:
    """Return the number of candidates that the pool lacks; negative if it has more than it needs.

    ``without`` are UUIDs of nodes that do not count, because they are about to leave.
    """
    return snapshot.the_cluster.candidate_pool_size - snapshot.numbers_of_candidates(without=without)[0]


def weakened(snapshot: states.Snapshot, after: states.Snapshot, *, without: str = "") -> list[base.Step]:
    """Return the step that warns if the state ``after`` a change has a weaker policy of replication.

    The pool is filled after the change, but not with the node ``without``, which does not count either.
    """
    candidates, lost = after.numbers_of_candidates(without=[without])
    candidates += min(max(missing(after, without=[without]), 0), len(eligible(after, without=[without])))
    before, policy = snapshot.replication_policy, after.the_cluster.replication_policy(candidates, lost)
    if not policy.is_weaker(before):
        return []
    alone = "the master acknowledges changes alone if it does not reach the others"
    without_some = "a change is acknowledged without the candidates that do not answer"
    effect = alone if policy.continues_alone else without_some
    keep = f"gnt-cluster modify --replication {before.value} keeps the present policy"
    if after.the_cluster.replication:
        return [base.Step(f"- WARNING: the replication policy becomes {policy.value}: {effect}")]
    number = f"- WARNING: the cluster keeps {candidates} master candidates"
    return [base.Step(f"{number}, so its replication policy becomes {policy.value}: {effect}; {keep}")]


def eligible(snapshot: states.Snapshot, *, without: Collection[str] = ()) -> list[cluster.Node]:
    """Return the nodes that could become candidates, by name, except for ``without`` (UUIDs)."""
    the_cluster = snapshot.the_cluster
    nodes = [
        node
        for node in snapshot.nodes.values()
        if node.role(the_cluster) is cluster.Role.REGULAR and node.master_capable and node.uuid not in without
    ]
    return sorted(nodes, key=lambda node: node.name)


def surplus(snapshot: states.Snapshot, *, first: Collection[str] = ()) -> list[cluster.Node]:
    """Return the surplus candidates of the pool, in the order in which they leave.

    Those named in ``first`` leave first; then the last by name.
    """
    the_cluster = snapshot.the_cluster
    candidates = [node for node in snapshot.nodes.values() if node.role(the_cluster) is cluster.Role.CANDIDATE]
    by_name = sorted(candidates, key=lambda node: node.name, reverse=True)
    return sorted(by_name, key=lambda node: node.name not in first)[: max(0, -missing(snapshot))]


async def send_secrets(environment: base.Environment, target: targets.Target) -> None:
    """Send a node the authority's certificate and key, and the users file if there is one."""
    for name, content in environment.authority.papers().items():
        await environment.nodes.call(target, calls.UploadFile(name=name, content=content))


def sending_secrets(environment: base.Environment, target: targets.Target) -> base.Actions:
    """Return the action that sends a node what a master candidate stores."""

    async def send() -> None:
        await send_secrets(environment, target)

    return (base.Procedure("sends secrets, which no plan contains", send),)


def deleting_secrets(target: targets.Target) -> base.Actions:
    """Return the action that makes a node delete what a candidate stores; an error is a warning in the job's log."""
    warning = f"{target.name} may still have the cluster's key and a copy of its state, which it had to delete"
    return (base.Command(target, calls.NodeDemote(), errors.GantryError, warning),)


def demotion(environment: base.Environment, target: targets.Target) -> base.Step:
    """Return the step that deletes the copy of a former candidate, which has lost the flag before.

    A node that is considered offline only causes a warning.
    """
    return base.Step(
        f"delete the copy of the state on {target.name}",
        deleting_secrets(target),
        () if target.offline else sending_secrets(environment, target),
    )


async def lagging(environment: base.Environment, snapshot: states.Snapshot) -> list[tuple[str, str]]:
    """Return the candidates whose copy is older than ``snapshot``, by name, each with the problem.

    A copy that is just catching up gets one second for that.
    """
    the_cluster = snapshot.the_cluster
    nodes = [node for node in snapshot.nodes.values() if node.role(the_cluster) is cluster.Role.CANDIDATE]
    candidates = [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
    answers = await liveness.read(environment.nodes, candidates, calls.CandidateStatus())
    if any(answer.value and answer.value.serial < snapshot.serial for answer in answers):
        await environment.sleep(1.0)
        answers = await liveness.read(environment.nodes, candidates, calls.CandidateStatus())
    problems = []
    for answer in answers:
        if answer.error:
            problems.append((answer.target.name, f"the age of its copy of the state is unknown: {answer.error}"))
        elif answer.value and answer.value.serial < snapshot.serial:
            text = f"its copy of the state ends with serial {answer.value.serial}, the current is {snapshot.serial}"
            problems.append((answer.target.name, text))
    return problems


class Promotion:
    """Fills the pool in two parts: a step that sends the secrets, and changes at the plan's end that set the flag.

    ``without`` are UUIDs of nodes that must not be chosen and do not count.
    """

    def __init__(self, environment: base.Environment, *, without: Collection[str] = ()) -> None:
        self._environment = environment
        self._without = without
        self._chosen: list[str] = []

    @property
    def step(self) -> base.Step:
        """Return the step; it does something only when candidates are missing."""
        reason = "chooses nodes when it runs"
        send, delete = base.Procedure(reason, self._send), base.Procedure(reason, self._delete)
        return base.Step("fill the pool of master candidates", (send,), (delete,))

    async def _send(self) -> None:
        """Send the secrets to the number of nodes that are missing; skip nodes that do not answer."""
        state = self._environment.snapshot()
        self._chosen = []
        for node in eligible(state, without=self._without):
            if len(self._chosen) >= missing(state, without=self._without):
                break
            target = state.target(node)
            try:
                if await liveness.is_silent(self._environment.nodes, target):
                    raise errors.RemoteError("it does not answer")
                await send_secrets(self._environment, target)
            except errors.GantryError as error:
                self._environment.log.warning(f"{node.name} cannot become a master candidate: {error}")
            else:
                self._chosen.append(node.uuid)

    async def _delete(self) -> None:
        state = self._environment.snapshot()
        for uuid in self._chosen:
            if uuid in state.nodes and not state.nodes[uuid].master_candidate:
                actions = deleting_secrets(state.target(state.nodes[uuid]))
                await base.perform(actions, self._environment.nodes, self._environment.log)

    def changes(self, current: states.Snapshot) -> list[states.Change]:
        """Return the changes that make candidates of the nodes that have the secrets."""
        can = {node.uuid for node in eligible(current, without=self._without)}
        needed = max(0, missing(current, without=self._without))
        promoted = [current.nodes[uuid] for uuid in self._chosen if uuid in can][:needed]
        for node in promoted:
            self._environment.log.info(f"{node.name} becomes a master candidate")
        now = self._environment.inputs.now
        return [states.Put(base.changed(node, now, master_candidate=True, lost_candidate=False)) for node in promoted]
