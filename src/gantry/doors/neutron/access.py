"""Who asks at the Neutron door: a user with a role in a project, and the ways to find that out.

An ``Authenticator`` is one way; ``daemons.remote`` chooses it for the whole door. ``Everybody`` asks for nothing,
``Passwords`` takes the users of the file that the remote API has too (``doors.http.users``), by HTTP basic or by a
token that ``identity`` gave for the same password. ``tokens.Tokens`` asks the site's own Keystone.

The rules of access themselves are in ``policy``.
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
"""The project of those for whom none is named."""

CHALLENGE = 'Basic realm="Networking"'
LIFETIME = 3600
"""Seconds that a token is good for."""


class Role(IntEnum):
    """What somebody may do: see, change what is the project's, change everything."""

    READER = 1
    MEMBER = 2
    ADMIN = 3


@dataclass(frozen=True)
class Person:
    """Somebody in a project; its id is its name, unless another service says which projects there are."""

    user: str
    project: str
    role: Role

    @property
    def is_admin(self) -> bool:
        """Tell whether everything is allowed."""
        return self.role is Role.ADMIN


class Authenticator(Protocol):
    """A way to find out who asks."""

    async def person(self, headers: Mapping[str, str]) -> Person:
        """Return who sent a request with these headers, names in lower case; MiddlewareError 401."""
        ...


class Everybody:
    """Lets everybody in as the administrator: for a machine's own use, or behind a proxy that asks."""

    async def person(self, headers: Mapping[str, str]) -> Person:
        """Return the administrator."""
        return Person("", PROJECT, Role.ADMIN)


class Passwords:
    """Lets the users of a file in; a token is signed by this process, and ends with it and with the user's password."""

    def __init__(self, runtime: interface.Runtime, known: users.Users) -> None:
        self._clock = runtime.clock
        self._known = known
        self._key = runtime.random.token(32)

    async def person(self, headers: Mapping[str, str]) -> Person:
        """Return the user of a token, or of a name and a password."""
        token, header = headers.get("x-auth-token"), headers.get("authorization")
        found = self._bearer(token) if token else await self._user(header) if header else None
        if found is None:
            raise faults.unauthorized(CHALLENGE)
        return found

    async def _user(self, header: str) -> Person | None:
        login = users.login(header)
        return await self.check(*login) if login else None

    async def check(self, name: str, password: str) -> Person | None:
        """Return the user with this password, None if there is none or it may do nothing here."""
        user = await self._known.check(name, password)
        return of_user(user) if user else None

    def projects(self) -> Sequence[str]:
        """Return the projects that users have."""
        people = map(of_user, self._known.all())
        return sorted({PROJECT, *(one.project for one in people if one)})

    def issue(self, person: Person) -> tuple[str, float]:
        """Return a token for somebody, and until when it is good."""
        until = int(self._clock.now()) + LIFETIME
        text = "\n".join((person.user, person.project, str(until)))
        return base64.urlsafe_b64encode(self._signed(text, person.user) + text.encode()).decode(), float(until)

    def _signed(self, text: str, name: str) -> bytes:
        """Return the signature of a token's text, which another password of the user makes another one."""
        user = self._known.get(name)
        return hmac.digest(self._key, f"{text}\n{user.password if user else ''}".encode(), "sha256")

    def _bearer(self, token: str) -> Person | None:
        """Return whose token it is, with the role that the file gives now."""
        try:
            raw = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
            sign, text = raw[:32], raw[32:].decode()
            name, project, until = text.split("\n")
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(sign, self._signed(text, name)) or float(until) < self._clock.now():
            return None
        user = self._known.get(name)
        found = of_user(user) if user else None
        return Person(name, project, found.role) if found and may_enter(found, project) else None


def of_user(user: users.User) -> Person | None:
    """Return what a line of the users file makes of a user; None without a right here.

    The options ``project=NAME`` and ``role=admin|member|reader`` say it; without a role a user of a project is its
    member, one who may write an administrator and one who may read a reader.
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


def may_enter(person: Person, project: str) -> bool:
    """Tell whether somebody may have a token for a project: the own one, administrators any."""
    return person.is_admin or person.project == project


def timestamp(seconds: float) -> str:
    """Return a time as the API writes it."""
    return _written(int(seconds))


# Objects that are made or listed together have the same few.
@functools.lru_cache(maxsize=4096)
def _written(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
