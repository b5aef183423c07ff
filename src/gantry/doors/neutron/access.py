"""Authentication of the Neutron API: a request comes from a user with a role in a project.

``daemons.remote`` chooses one ``Authenticator`` for the whole API. ``Everybody`` requires no authentication.
``Passwords`` accepts the users of the file that the remote API uses too (``doors.http.users``), by HTTP basic or by a
token that ``identity`` issued for the same password. ``tokens.Tokens`` asks the site's own Keystone.

``policy`` has the permissions.
"""

import base64
import binascii
import datetime
import functools
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from gantry.doors.http import users
from gantry.doors.neutron import faults
from gantry.runtime import interface

PROJECT = "default"
"""The project of users without a configured project."""

CHALLENGE = 'Basic realm="Networking"'
LIFETIME_SECONDS = 3600
"""Seconds for which a token is valid."""


class Role(IntEnum):
    """The role of a user: a reader may read, a member may change the project's objects, an administrator all."""

    READER = 1
    MEMBER = 2
    ADMIN = 3


@dataclass(frozen=True)
class Person:
    """A user in a project; the id of a project is its name, unless Keystone manages the projects."""

    user: str
    project: str
    role: Role

    @property
    def is_admin(self) -> bool:
        """Return whether the user is an administrator."""
        return self.role is Role.ADMIN


class Authenticator(Protocol):
    """A method of authentication."""

    async def person(self, headers: Mapping[str, str], peer: str) -> Person:
        """Return the user of a request by its headers, whose names are in lower case; MiddlewareError 401.

        ``peer`` is the address of the client.
        """
        ...


class Everybody:
    """Accepts all requests as the administrator's: for local use, or behind a proxy with its own authentication."""

    async def person(self, headers: Mapping[str, str], peer: str) -> Person:
        """Return the administrator."""
        return Person("", PROJECT, Role.ADMIN)


class Passwords:
    """Accepts the users of a file, also by a token.

    A token ends with this process, and when the file gives its user another password, project or role.
    """

    def __init__(self, runtime: interface.Runtime, known: users.Users) -> None:
        self._clock = runtime.clock
        self._known = known
        self._key = runtime.random.token(32)

    async def person(self, headers: Mapping[str, str], peer: str) -> Person:
        """Return the user of a token, or of a name and a password."""
        token, header = headers.get("x-auth-token"), headers.get("authorization")
        person = self._bearer(token) if token else await self._user(header, peer) if header else None
        if person is None:
            raise faults.unauthorized(CHALLENGE)
        return person

    async def _user(self, header: str, peer: str) -> Person | None:
        login = users.login(header)
        return await self.check(*login, peer=peer) if login else None

    async def check(self, name: str, password: str, *, peer: str) -> Person | None:
        """Return the user with this password, None if the password is wrong or the user has no role."""
        user = await self._known.check(name, password, peer=peer)
        return of_user(user) if user else None

    def projects(self) -> Sequence[str]:
        """Return the projects of all users."""
        people = map(of_user, self._known.all())
        return sorted({PROJECT, *(person.project for person in people if person)})

    def issue(self, person: Person) -> tuple[str, float]:
        """Return a new token for a user, and its expiry in seconds since the epoch."""
        until = int(self._clock.now()) + LIFETIME_SECONDS
        text = "\n".join((person.user, person.project, str(until)))
        return base64.urlsafe_b64encode(self._signed(text, person.user) + text.encode()).decode(), float(until)

    def _signed(self, text: str, name: str) -> bytes:
        """Return the signature of a token's text, which depends on the user's password, project and role."""
        user = self._known.get(name)
        person = of_user(user) if user else None
        bound = (user.password, person.project, person.role.name) if user and person else ()
        return hmac.digest(self._key, "\n".join((text, *bound)).encode(), "sha256")

    def _bearer(self, token: str) -> Person | None:
        """Return the user of a token; None if the token is invalid."""
        try:
            raw = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
            sign, text = raw[:32], raw[32:].decode()
            name, project, until = text.split("\n")
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(sign, self._signed(text, name)) or float(until) < self._clock.now():
            return None
        user = self._known.get(name)
        person = of_user(user) if user else None
        return Person(name, project, person.role) if person and self.may_enter(person, project) else None

    def may_enter(self, person: Person, project: str) -> bool:
        """Return whether a user may get a token for a project: its own, or any known project for administrators."""
        return person.project == project or (person.is_admin and project in self.projects())


def of_user(user: users.User) -> Person | None:
    """Return project and role of a user of the users file; None without a role.

    The options are ``project=NAME`` and ``role=admin|member|reader``. Without a role, a user with a project is its
    member; of the others, a user who may write is an administrator, and a user who may read is a reader.
    """
    options = dict(option.partition("=")[::2] for option in user.options)
    project = options.get("project", "")
    role = {"admin": Role.ADMIN, "member": Role.MEMBER, "reader": Role.READER}.get(options.get("role", ""))
    if role is None and "role" not in options:
        if project:
            role = Role.MEMBER
        elif user.may_read:
            role = Role.ADMIN if user.may_write else Role.READER
    return Person(user.name, project or PROJECT, role) if role else None


def timestamp(seconds: float) -> str:
    """Return a time as the API writes it."""
    return _format_time(int(seconds))


# Objects that are created or listed together have few different times.
@functools.lru_cache(maxsize=4096)
def _format_time(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
