"""The methods of LUXI about the Debian packages of nodes, for ``gnt-cluster upgrade``; only root may change them.

The command decides which node is next, and can be repeated, since all that it needs to know is on the nodes: the master
daemon itself restarts in the middle of an upgrade.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gantry import errors
from gantry.doors.luxi.services import BY_ROOT, Services, cause
from gantry.model import cluster
from gantry.operations.access import check
from gantry.rpc import calls, targets
from gantry.rpc.calls import protocol
from gantry.state.files import checkpoint

Action = Literal["check", "install", "confirm"]


class NodePackages(msgspec.Struct, frozen=True):
    """The packages of a node as ``calls.PackagesReport`` has them; ``error`` says why they are not known."""

    node: str
    role: str
    offline: bool
    error: str = ""
    installed: str = ""
    started: str = ""
    busy: bool = False
    unconfirmed: bool = False
    fault: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """How a node took a call; ``error`` is empty if it succeeded."""

    node: str
    error: str = ""


async def query(services: Services) -> list[NodePackages]:
    """Return the packages of all nodes, in the order of their names."""
    state = services.snapshot()
    nodes = sorted(state.nodes.values(), key=lambda node: node.name)
    online = [state.target(node) for node in nodes if not node.offline]
    answers = await services.source.nodes.fan_out(online, calls.PackagesStatus())
    by_uuid = {answer.target.uuid: answer for answer in answers}
    master = state.the_cluster.master_node
    return [_row(node, by_uuid.get(node.uuid), master=master) for node in nodes]


def _row(node: cluster.Node, answer: targets.Answer[calls.PackagesReport] | None, *, master: str) -> NodePackages:
    role = "master" if node.uuid == master else "candidate" if node.master_candidate else "regular"
    if answer is None or answer.value is None:
        error = str(answer.error) if answer else "the node is marked offline"
        return NodePackages(node.name, role, node.offline, error)
    return NodePackages(node.name, role, node.offline, **msgspec.structs.asdict(answer.value))


async def change(
    services: Services, action: Action, names: Sequence[str], version: calls.PackageVersion, confirm_seconds: int
) -> list[Outcome]:
    """Check, install or confirm a version on nodes; return how each of them took it."""
    if not BY_ROOT.get():
        raise errors.ForbiddenError(
            "only root may change the packages of nodes, with a command on the master",
            hint="run gnt-cluster upgrade there as root",
        )
    state = services.snapshot()
    chosen = [state.target(state.node(name)) for name in names]
    if action == "check":
        checked = await services.nodes.fan_out(chosen, calls.PackagesCheck(version=version))
        return [Outcome(answer.target.name, _error(answer) or _distance(version, answer.value)) for answer in checked]
    # Recorded before it happens, and therefore as a request: an upgrade of the master ends this daemon.
    what = "confirmation" if action == "confirm" else "installation"
    reason = f"{what} of packages {version} requested on {', '.join(names)}"
    await services.note(cause(reason, check.ADMINISTRATOR))
    call: calls.Call[None] = (
        calls.PackagesConfirm(version=version)
        if action == "confirm"
        else calls.PackagesInstall(version=version, confirm_seconds=confirm_seconds)
    )
    return [Outcome(answer.target.name, _error(answer)) for answer in await services.nodes.fan_out(chosen, call)]


def _error(answer: targets.Answer[calls.PackagesOffer] | targets.Answer[None]) -> str:
    return str(answer.error) if answer.error else ""


def _distance(version: str, offer: calls.PackagesOffer | None) -> str:
    """Return why a version is too far from this one; packages before 1.0 do not say what they understand."""
    if offer and offer.protocol and protocol.are_too_far_apart(offer.protocol):
        return (
            f"version {version} has protocol {offer.protocol}, this master {protocol.OWN}: nodes of both would not "
            "understand each other; choose a version in between"
        )
    if offer and offer.state and offer.state < checkpoint.VERSION:
        return (
            f"version {version} cannot read the state of this cluster: it knows the format {offer.state}, and the "
            f"state has {checkpoint.VERSION}"
        )
    return ""
