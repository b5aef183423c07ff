"""The user that the claims of a log-in stand for: name, groups, and what the user may do.

Names of a provider get a prefix, ``oidc:anna``, and so do its groups, ``group:oidc:operators`` in an access rule. So
nobody becomes a user of the users file or of the system, or a member of a system group, by a name at the provider.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gantry import errors
from gantry.doors.http import users

MAX_GROUPS = 500
"""Groups of a user: they travel with each request to the master."""
NAME_CHARACTERS = 250
"""The longest name that fits into an access rule."""

_NAME = re.compile(r"[^\s:]{1,250}")


@dataclass(frozen=True)
class Mapped:
    """Which claims and groups decide; an empty group is none.

    Members of ``login_group`` may log in, everybody without one; members of ``admin_group`` may do everything.
    """

    user_claim: str = "preferred_username"
    groups_claim: str = "groups"
    login_group: str = ""
    admin_group: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the claims that are read."""
        verified = "email_verified" if self.user_claim == "email" else ""
        return tuple(name for name in (self.user_claim, verified, self.groups_claim) if name)

    def user(self, claims: Mapping[str, object]) -> users.User:
        """Return the user of claims that have been checked; ForbiddenError if the user may not log in."""
        name = self._name(claims)
        groups = self._groups(claims, name)
        is_admin = bool(self.admin_group) and self.admin_group in groups
        if self.login_group and self.login_group not in groups and not is_admin:
            raise errors.ForbiddenError(f"user {name} is not in the group {self.login_group}, which may log in")
        named = tuple(users.OIDC + group for group in groups if _NAME.fullmatch(group) and group.isprintable())
        return users.User(users.OIDC + name, "", frozenset({"write" if is_admin else "read"}), named)

    def _name(self, claims: Mapping[str, object]) -> str:
        name = claims.get(self.user_claim)
        if not isinstance(name, str) or not name:
            raise errors.ForbiddenError(
                f"the OpenID provider does not name the user: the claim {self.user_claim} is missing",
                hint="see --oidc-user-claim and --oidc-scopes",
            )
        if not _NAME.fullmatch(name) or not name.isprintable():
            raise errors.ForbiddenError(
                f"the OpenID provider names a user {name[:50]!r}: a name has no space and no colon, and at most "
                f"{NAME_CHARACTERS} characters"
            )
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise errors.ForbiddenError(f"the OpenID provider has not verified the address {name}")
        return name

    def _groups(self, claims: Mapping[str, object], name: str) -> tuple[str, ...]:
        value = claims.get(self.groups_claim, []) if self.groups_claim else []
        groups = [value] if isinstance(value, str) else value
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise errors.ForbiddenError(f"the claim {self.groups_claim} of user {name} is not a list of names")
        if len(groups) > MAX_GROUPS:
            raise errors.ForbiddenError(
                f"the OpenID provider names {len(groups)} groups of user {name}, more than {MAX_GROUPS}",
                hint="let it name only those that have rights here",
            )
        return tuple(dict.fromkeys(groups))
