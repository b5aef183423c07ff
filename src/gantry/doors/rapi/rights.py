"""The rights of users of the remote API: the master decides about each change by its access rules.

A user with the option ``write`` may change everything. A user with the option ``read`` and rules may submit and cancel
jobs, as far as the rules allow; without rules, the front end itself refuses changes. So a master that knows no rules is
never asked for a change in the name of such a user. The rules of groups count too, if an OpenID provider names them. In
a request with an API token the master decides, too, whether the token allows the change.
"""

from collections.abc import Sequence

import msgspec

from gantry.doors.http import tokens, users
from gantry.rpc import luxi


class Rule(msgspec.Struct, frozen=True):
    """A rule of a user; ``object`` is the UUID of its object or a tag, ``on`` the object by its present name."""

    role: str
    scope: str
    object: str
    on: str


class _Own(msgspec.Struct, frozen=True):
    rules: list[Rule]


def act_for(user: users.User | None, peer: str) -> None:
    """Make the further calls of this task to the master as a user at an address, or without rights if it is None."""
    luxi.USER.set(_named(user, peer) if user else luxi.WITHOUT_RIGHTS)


def _named(user: users.User, peer: str) -> luxi.NamedUser:
    # What the token allows is in the state: the master compares it with each need.
    token, may_all = user.token.uuid if user.token else "", "write" in user.options
    # Groups change nothing for somebody who may change everything.
    return luxi.NamedUser(user.name, may_all, peer=peer, groups=() if may_all else user.groups, token=token)


async def prove(master: luxi.Caller, identifier: str, secret_hash: str) -> tokens.Proof | None:
    """Return the master's proof of a token; raises the errors of ``luxi.Client.call``.

    It is a call of this process: the user of the last request of this task has nothing to do with it.
    """
    previous = luxi.USER.set(luxi.WITHOUT_RIGHTS)
    try:
        return await master.call(tokens.Proof | None, "ProveToken", identifier, secret_hash)  # type: ignore[arg-type]
    finally:
        luxi.USER.reset(previous)


async def decides_master(master: luxi.Caller, user: users.User | None, peer: str) -> bool:
    """Return whether the master is to decide about a change of a user who may not do everything.

    Access rules may allow it, or the roles of a token; a token that only reads never asks.
    """
    if user is None or not user.may_read or (user.token and user.token.extent == "read"):
        return False
    return (user.token is not None and "write" in user.options) or bool(await rules(master, user, peer))


async def rules(master: luxi.Caller, user: users.User, peer: str) -> Sequence[Rule]:
    """Return the access rules of a user; raises the errors of ``luxi.Client.call``."""
    act_for(user, peer)
    return (await master.call(_Own, "QueryOwnAccess")).rules
