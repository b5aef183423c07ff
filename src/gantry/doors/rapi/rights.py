"""The rights of users of the remote API: the master decides about each change by its access rules.

A user with the option ``write`` may change everything. A user with the option ``read`` and rules may submit and cancel
jobs, as far as the rules allow; without rules, the front end itself refuses changes. So a master that knows no rules is
never asked for a change in the name of such a user. The rules of groups count too, if an OpenID provider names them.
"""

from collections.abc import Sequence

import msgspec

from gantry.doors.http import users
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
    """Make the further calls of this task to the master for a user at an address; None is somebody without rights."""
    if user is None:
        luxi.USER.set(luxi.WITHOUT_RIGHTS)
        return
    # Groups change nothing for somebody who may change everything.
    groups = () if user.may_write else user.groups
    luxi.USER.set(luxi.NamedUser(user.name, user.may_write, peer=peer, groups=groups))


async def rules(master: luxi.Caller, user: users.User, peer: str) -> Sequence[Rule]:
    """Return the access rules of a user; raises the errors of ``luxi.Client.call``."""
    act_for(user, peer)
    return (await master.call(_Own, "QueryOwnAccess")).rules
