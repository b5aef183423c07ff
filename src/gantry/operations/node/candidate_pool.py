"""The pool of master candidates: who is needed in it, what a candidate keeps, and how it gives that up.

Shared by the units that change nodes or the pool's size. The pool is kept at ``candidate_pool_size`` as far as there
are nodes that may be candidates (contracts/cluster-design.md#node-flags); the master counts. A candidate has the
authority's papers before it has the flag, because a copy of the state without them cannot make a master; the copy
itself comes with the flag. Who gave the flag up on request may be chosen again later; ``master_capable`` keeps a node
out for good.
"""

from collections.abc import Collection

from gantry import errors
from gantry.model import cluster, lock
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state import snapshot as states

POOL = (lock.Level.CONFIG, "candidates")
"""The lock of who fills or empties the pool: a node that is being chosen must not be lost to another change."""


def missing(snapshot: states.Snapshot, *, without: Collection[str] = ()) -> int:
    """Return how many candidates the pool lacks; below 0 when it has more than it needs.

    ``without`` are UUIDs of nodes that do not count, as they are about to go.
    """
    owner = snapshot.the_cluster
    held = (cluster.Role.MASTER, cluster.Role.CANDIDATE)
    there = (node for node in snapshot.nodes.values() if node.uuid not in without)
    return owner.candidate_pool_size - sum(node.role(owner) in held for node in there)


def eligible(snapshot: states.Snapshot, *, without: Collection[str] = ()) -> list[cluster.Node]:
    """Return the nodes that could become candidates, by name; ``without`` are UUIDs to leave out."""
    owner = snapshot.the_cluster
    found = [
        node
        for node in snapshot.nodes.values()
        if node.role(owner) is cluster.Role.REGULAR and node.master_capable and node.uuid not in without
    ]
    return sorted(found, key=lambda node: node.name)


def surplus(snapshot: states.Snapshot, *, first: Collection[str] = ()) -> list[cluster.Node]:
    """Return the candidates that are too many in the pool, in the order in which they go.

    Those named in ``first`` go before the others; then the last by name, so that who came last goes first.
    """
    owner = snapshot.the_cluster
    candidates = [node for node in snapshot.nodes.values() if node.role(owner) is cluster.Role.CANDIDATE]
    by_name = sorted(candidates, key=lambda node: node.name, reverse=True)
    return sorted(by_name, key=lambda node: node.name not in first)[: max(0, -missing(snapshot))]


async def give_papers(environment: base.Environment, target: targets.Target) -> None:
    """Send a node the authority's certificate and key, and the list of users where there is one."""
    for name, content in environment.authority.papers().items():
        await environment.nodes.call(target, calls.UploadFile(name=name, content=content))


def sending(environment: base.Environment, target: targets.Target) -> base.Actions:
    """Return the action that sends a node what a master candidate keeps."""

    async def send() -> None:
        await give_papers(environment, target)

    return (base.Procedure("sends secrets, which no plan contains", send),)


def taking_back(target: targets.Target) -> base.Actions:
    """Return the action that lets a node delete what a candidate keeps; an error is a warning in the job's log."""
    warning = f"{target.name} may still hold the cluster's key and a copy of its state, which it was to delete"
    return (base.Command(target, calls.NodeDemote(), errors.GantryError, warning),)


def demotion(environment: base.Environment, target: targets.Target) -> base.Step:
    """Return the step that takes its copy from a candidate, which has lost the flag before.

    One that is taken for offline is only warned of.
    """
    return base.Step(
        f"take the copy of the state from {target.name}",
        taking_back(target),
        () if target.offline else sending(environment, target),
    )


async def lagging(environment: base.Environment, snapshot: states.Snapshot) -> list[tuple[str, str]]:
    """Return the candidates whose copy does not hold what ``snapshot`` does, by name, and what is wrong with each.

    A copy that is only about to catch up gets a second for it.
    """
    owner = snapshot.the_cluster
    nodes = [node for node in snapshot.nodes.values() if node.role(owner) is cluster.Role.CANDIDATE]
    where = [snapshot.target(node) for node in sorted(nodes, key=lambda node: node.name)]
    answers = await environment.nodes.fan_out(where, calls.CandidateStatus())
    if any(answer.value and answer.value.serial < snapshot.serial for answer in answers):
        await environment.sleep(1.0)
        answers = await environment.nodes.fan_out(where, calls.CandidateStatus())
    found = []
    for answer in answers:
        if answer.error:
            found.append((answer.target.name, f"how far its copy of the state reaches is not known: {answer.error}"))
        elif answer.value and answer.value.serial < snapshot.serial:
            text = f"its copy of the state ends with serial {answer.value.serial}, the newest is {snapshot.serial}"
            found.append((answer.target.name, text))
    return found


class Promotion:
    """Fills the pool in two halves: a step that gives the papers, and changes for the plan's end that set the flag.

    ``without`` are UUIDs of nodes that are not to be chosen, and do not count.
    """

    def __init__(self, environment: base.Environment, *, without: Collection[str] = ()) -> None:
        self._environment = environment
        self._without = without
        self._chosen: list[str] = []

    @property
    def step(self) -> base.Step:
        """Return the step; it is done only when candidates are missing."""
        reason = "chooses nodes when it runs"
        give, take = base.Procedure(reason, self._give), base.Procedure(reason, self._take)
        return base.Step("fill the pool of master candidates", (give,), (take,))

    async def _give(self) -> None:
        """Give the papers to as many nodes as are missing; those that do not answer are passed over."""
        state = self._environment.snapshot()
        self._chosen = []
        for node in eligible(state, without=self._without):
            if len(self._chosen) >= missing(state, without=self._without):
                break
            try:
                await give_papers(self._environment, state.target(node))
            except errors.GantryError as error:
                self._environment.log.warning(f"{node.name} cannot become a master candidate: {error}")
            else:
                self._chosen.append(node.uuid)

    async def _take(self) -> None:
        state = self._environment.snapshot()
        for uuid in self._chosen:
            if uuid in state.nodes and not state.nodes[uuid].master_candidate:
                actions = taking_back(state.target(state.nodes[uuid]))
                await base.perform(actions, self._environment.nodes, self._environment.log)

    def changes(self, newest: states.Snapshot) -> list[states.Change]:
        """Return the changes that make candidates of those that have the papers."""
        can = {node.uuid for node in eligible(newest, without=self._without)}
        needed = max(0, missing(newest, without=self._without))
        promoted = [newest.nodes[uuid] for uuid in self._chosen if uuid in can][:needed]
        for node in promoted:
            self._environment.log.info(f"{node.name} becomes a master candidate")
        now = self._environment.inputs.now
        return [states.Put(base.changed(node, now, master_candidate=True)) for node in promoted]
