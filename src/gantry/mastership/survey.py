"""How far the copies of the state on other nodes reach, asked while no master daemon runs: for ``recover``.

``repair`` and ``retrieval`` ask before they give up records. The nodes are those in the stored state and in the ssconf
files, as either may lack a node: the state may be damaged or too short, and ssconf lags behind. A node that does not
answer may hold any record, so callers report its name.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import ssconf as ssconf_file
from gantry.mastership import vote
from gantry.model import cluster
from gantry.rpc import calls, client, targets
from gantry.rpc.calls import reach
from gantry.runtime import interface, paths
from gantry.state.files import checkpoint
from gantry.state.journal import journal

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""How long a node has to say how far its copy reaches."""

HIGHEST_JOB = 10**11
"""The highest job number that a node can know: a thousand jobs a second for three years."""

DEFAULT_PORT = 1811
"""The port of a node daemon if neither state nor ssconf says another: earlier versions had no ports in ssconf."""


@dataclass(frozen=True)
class Local:
    """What this machine says of the cluster: its nodes, and the highest job number in what can be read of its copy.

    ``end`` is where its copy ends, None if not all of the copy can be read.
    """

    nodes: dict[str, targets.Target]
    last_job: int = 0
    end: journal.Position | None = None


@dataclass(frozen=True)
class Survey:
    """The answers of the other nodes, by name; the node of this machine is not among them."""

    answers: tuple[vote.Answer, ...]

    @property
    def last_job(self) -> int:
        """Return the highest job number in any copy."""
        return max((answer.copy.job for answer in self.answers if answer.copy), default=0)

    @property
    def epoch(self) -> int:
        """Return the highest epoch that a node has a record of or has heard of."""
        return vote.highest_epoch(self.answers)

    @property
    def silent(self) -> list[str]:
        """Return the nodes that did not say how far their copies reach, each with the reason."""
        return [f"{answer.node} ({answer.why})" for answer in self.answers if answer.copy is None]

    def newer(self, than: calls.CandidateState) -> list[vote.Answer]:
        """Return the answers of nodes whose copies have records that ``than`` lacks, the newest copy last."""
        ahead = [(answer.copy, answer) for answer in self.answers if answer.copy and vote.is_newer(answer.copy, than)]
        ahead.sort(key=lambda pair: (pair[0].epoch, pair[0].serial, pair[0].job))
        return [answer for _, answer in ahead]

    def lost_records(self, node: str, copy: calls.CandidateState, *, own: reach.Reach) -> vote.LostRecords | None:
        """Return what was acknowledged and is in no copy that answers; None if nobody has heard of such records.

        ``own`` is what the machine ``node`` with the copy ``copy`` itself has heard of.
        """
        ends = [(answer.copy.epoch, answer.copy.serial) for answer in self.answers if answer.copy]
        claim = vote.Claim(node, copy, acknowledged=own)
        return vote.lost_records(claim, self.answers, beyond=max(ends, default=reach.UNKNOWN))


def described(answer: vote.Answer) -> str:
    """Return what a node with a newer copy holds, as text for people."""
    assert answer.copy is not None
    return f"node {answer.node} holds a newer one, serial {answer.copy.serial} epoch {answer.copy.epoch}"


async def ask(
    nodes: client.Client, known_nodes: Collection[targets.Target], *, apart: Collection[str], epoch: int
) -> Survey:
    """Ask all nodes except those with a name in ``apart``; WrongStateError if a master daemon runs on one of them.

    ``epoch`` is the highest that is known here: a node that reports an impossible epoch or job counts as silent.
    """
    nodes_to_ask = sorted((node for node in known_nodes if node.name not in apart), key=lambda node: node.name)
    copies = await asyncio.gather(*(status(nodes, node) for node in nodes_to_ask))
    answers = [_answer(node.name, copy) for node, copy in zip(nodes_to_ask, copies, strict=True)]
    survey = Survey(tuple(vote.without_impossible(epoch, answers)))
    for line in survey.silent:
        log.warning("a node cannot say whether it holds more: %s", line)
    return survey


def _answer(name: str, copy: calls.CandidateState | errors.GantryError) -> vote.Answer:
    if isinstance(copy, errors.WrongStateError):
        raise errors.WrongStateError(
            copy.message, hint="a state can only be replaced or repaired while no master daemon runs"
        )
    if isinstance(copy, errors.GantryError):
        return vote.Answer(name, why=copy.message)
    if copy.job > HIGHEST_JOB:
        return vote.Answer(name, why=f"it reports job {copy.job}, and no cluster has more than {HIGHEST_JOB} jobs")
    return vote.Answer(name, copy=copy)


async def status(nodes: client.Client, node: targets.Target) -> calls.CandidateState | errors.GantryError:
    """Return how far a node's copy reaches, or why that is not known."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await nodes.call(node, calls.CandidateStatus())
    except errors.GantryError as error:
        return error
    except TimeoutError:
        return errors.RemoteError(f"node {node.name} did not answer within {TIMEOUT_SECONDS:g} s")


def local(disk: interface.Disk, where: paths.Paths) -> Local:
    """Read what is here, without a change; damage makes the end unknown, and then ssconf has the nodes."""
    try:
        loaded = checkpoint.decode(disk.read(where.config), path=where.config)
    except (errors.ConfigurationError, OSError) as error:
        log.warning("the state here cannot be read: %s", error)
        return Local(_from_ssconf(disk, where))
    own = {value.name: value for value in loaded.objects if isinstance(value, cluster.Node)}
    known = {name: target(node) for name, node in own.items()}
    replay = journal.Replay(disk, where.journal, loaded.position)
    last_job, end = loaded.last_job, None
    try:
        for record in replay:
            last_job = max([last_job, *(int(change.key) for change in record.changes if change.kind == "jobs")])
        end = replay.end
    except (errors.ConfigurationError, OSError) as error:
        log.warning("the journal here cannot be read: %s", error)
    return Local({**_from_ssconf(disk, where), **known}, last_job, end)


def target(node: cluster.Node) -> targets.Target:
    """Return the target of a node, whatever its flags."""
    return targets.Target(node.uuid, node.name, node.primary_ip, node.port)


def _from_ssconf(disk: interface.Disk, where: paths.Paths) -> dict[str, targets.Target]:
    """Return the nodes in the ssconf files."""
    ports = {name: int(port) for name, port in _pairs(disk, where, "node_ports") if port.isdecimal()}
    addresses = _pairs(disk, where, "node_primary_ips")
    return {name: targets.Target("", name, address, ports.get(name, DEFAULT_PORT)) for name, address in addresses}


def _pairs(disk: interface.Disk, where: paths.Paths, key: str) -> list[tuple[str, str]]:
    """Return the lines of an ssconf file that have two words."""
    path = ssconf_file.path(where.ssconf, key)
    lines = disk.read(path).decode(errors="replace").splitlines() if disk.exists(path) else []
    return [(words[0], words[1]) for words in map(str.split, lines) if len(words) == 2]
