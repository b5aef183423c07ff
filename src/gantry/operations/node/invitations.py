"""The invitations that the cluster keeps: which one a machine shows, and whether it still admits the machine.

The units that make, list and revoke invitations call this module, the one that adds a node, and the door at which
machines show them (``doors.luxi.invitations``). Pure. See explanation/security.md#joining-by-invitation.
"""

from collections.abc import Sequence

from msgspec import structs

from gantry import errors, security
from gantry.model import cluster
from gantry.state.objects import snapshot as states

VALID_SECONDS = 3600.0
"""How long an invitation admits a machine, by the master's clock."""

KEPT_SECONDS = 86400.0
"""How long after its end an invitation is kept, to answer a machine that shows it too late."""

LIMIT = 1000
"""The maximum number of invitations, closed ones included."""

ANOTHER = "gnt-node add NODE on the master makes another one"


def id_of(invitation: cluster.Invitation) -> str:
    """Return the id of an invitation, which reveals nothing."""
    return security.invitation.id_of(invitation.secret_hash)


def find(state: states.Snapshot, invitation_id: str) -> cluster.Invitation | None:
    """Return the invitation with an id; None if there is none."""
    for invitation in state.the_cluster.invitations:
        if security.invitation.is_equal(id_of(invitation), invitation_id):
            return invitation
    return None


def state_of(invitation: cluster.Invitation, now: float) -> str:
    """Return the word for what became of an invitation: open, ended, or one of ``cluster.Closed``."""
    if invitation.closed:
        return invitation.closed
    return "open" if now < invitation.end else "ended"


def opened(invitation: cluster.Invitation | None, now: float) -> cluster.Invitation:
    """Return an invitation that admits a machine; NotFoundError or WrongStateError says why another one does not."""
    if invitation is None:
        raise errors.NotFoundError(
            "the cluster knows no such token: it is mistyped, was replaced by a later one for the same name, or comes "
            "from another cluster",
            hint=f"compare it with what gnt-node add printed; {ANOTHER}",
        )
    match state_of(invitation, now):
        case cluster.Closed.USED:
            raise errors.WrongStateError(
                f"the token was used: it admitted {invitation.node} at {invitation.address}",
                hint="if you do not know that machine, remove it with gnt-node remove; " + ANOTHER,
            )
        case cluster.Closed.REVOKED:
            raise errors.WrongStateError(f"the token for {invitation.node} was revoked", hint=ANOTHER)
        case "ended":
            hours = (now - invitation.end) / 3600
            raise errors.WrongStateError(
                f"the token for {invitation.node} ended {hours:.1f} hours ago: it is valid for "
                f"{VALID_SECONDS / 3600:g} hour",
                hint=ANOTHER,
            )
    return invitation


def kept(invitations: Sequence[cluster.Invitation], now: float) -> tuple[cluster.Invitation, ...]:
    """Return the invitations that are not too old to be kept."""
    return tuple(each for each in invitations if now < each.end + KEPT_SECONDS)


def closed(
    invitations: Sequence[cluster.Invitation], node: str, *, why: cluster.Closed, address: str = ""
) -> tuple[cluster.Invitation, ...]:
    """Return the invitations with the open one for a name closed."""
    return tuple(
        structs.replace(each, closed=why.value, address=address) if each.node == node and not each.closed else each
        for each in invitations
    )
