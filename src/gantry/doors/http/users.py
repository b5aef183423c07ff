"""Who may use the doors that speak HTTP: the users file, and the check of a password.

A line of ``lib/users`` is of one of two kinds (contracts/remote-api.md#users-file):

    alice:$2y$10$...                      htpasswd's, bcrypt (``htpasswd -B``): may do everything
    bob {HA1}0123... write                name, password, options separated by commas

Passwords of the second kind are plain, ``{cleartext}`` and plain, ``{HA1}`` and the MD5 of ``name:REALM:password``, or
bcrypt. The option ``write`` allows everything, ``read`` the reads that are not open to all; what ``project=NAME`` and
``role=NAME`` mean is said by a door that has projects. A line that cannot be read lets nobody in. The file is read
again when it has changed; no part of a password is ever logged.

Wrong passwords are answered slowly, and for one user one after the other, so that guessing takes longer than it pays.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import bcrypt

from gantry.runtime import interface

log = logging.getLogger(__name__)

REALM = "Ganeti Remote API"
PENALTY = 1.0
"""Seconds that the answer to a wrong password takes, for a user that does not exist too."""

LONGEST = 72
"""Bytes of a password that bcrypt looks at; htpasswd leaves out the rest as well."""

_BCRYPT = ("$2a$", "$2b$", "$2y$")
_HA1 = "{ha1}"
_CLEARTEXT = "{cleartext}"


@dataclass(frozen=True)
class User:
    """A line of the file."""

    name: str
    password: str
    options: frozenset[str]

    @property
    def may_write(self) -> bool:
        """Tell whether it may change the cluster."""
        return "write" in self.options

    @property
    def may_read(self) -> bool:
        """Tell whether it may make the reads that are not open to all."""
        return bool(self.options & {"read", "write"})

    def has(self, password: str) -> bool:
        """Tell whether this is the user's password; takes as long as its form was made to take."""
        wanted, given = self.password, password
        if wanted.startswith(_BCRYPT):
            try:
                return bcrypt.checkpw(given.encode()[:LONGEST], wanted.encode())
            except ValueError:
                return False
        if wanted.lower().startswith(_HA1):
            wanted = wanted[len(_HA1) :].lower()
            given = hashlib.md5(f"{self.name}:{REALM}:{password}".encode()).hexdigest()
        elif wanted.lower().startswith(_CLEARTEXT):
            wanted = wanted[len(_CLEARTEXT) :]
        return hmac.compare_digest(wanted.encode(), given.encode())


def _user(line: str) -> User | None:
    name, colon, rest = line.partition(":")
    if colon and name and not any(one.isspace() for one in name):
        return User(name, rest, frozenset({"write"})) if rest.startswith(_BCRYPT) else None
    words = line.split()
    if not 2 <= len(words) <= 3:
        return None
    return User(words[0], words[1], frozenset(words[2].split(",")) if len(words) == 3 else frozenset())


def parse(text: str) -> dict[str, User]:
    """Return the users of a file by name; lines that are not understood are logged by number and left out."""
    found: dict[str, User] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        user = _user(line)
        if user:
            found[user.name] = user
        else:
            log.warning("line %d of the users file is neither 'name:bcrypt' nor 'name password options'", number)
    return found


def login(header: str) -> tuple[str, str] | None:
    """Return name and password of an Authorization header, None when it has another form than basic."""
    scheme, _, encoded = header.partition(" ")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if scheme.lower() == "basic" else None


class Users:
    """The users of a file, which may be missing: then there are none."""

    def __init__(self, runtime: interface.Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._seen: tuple[float, int] | None = None
        self._users: dict[str, User] = {}
        self._secret = runtime.random.token(32)
        self._proven: dict[str, bytes] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    def _refresh(self) -> None:
        """Read the file again when its time or size is another one."""
        try:
            status = self._runtime.disk.status(self._path)
            seen = (status.mtime, status.size)
            if seen == self._seen:
                return
            users = parse(self._runtime.disk.read(self._path).decode())
        except FileNotFoundError:
            seen, users = None, {}
        except (OSError, UnicodeDecodeError) as error:
            log.error("the users file %s cannot be read, nobody is let in: %s", self._path, type(error).__name__)
            seen, users = None, {}
        self._seen, self._users = seen, users
        self._proven.clear()
        self._turns.clear()

    def get(self, name: str) -> User | None:
        """Return a user by name, whatever the password is."""
        self._refresh()
        return self._users.get(name)

    def all(self) -> Sequence[User]:
        """Return all users."""
        self._refresh()
        return list(self._users.values())

    async def check(self, name: str, password: str) -> User | None:
        """Return the user if the password is right, None otherwise, and that slowly."""
        self._refresh()
        user = self._users.get(name)
        shown = hmac.digest(self._secret, password.encode(), "sha256")
        if user and hmac.compare_digest(self._proven.get(name, b""), shown):
            return user
        async with self._turns.setdefault(name if user else "", asyncio.Lock()):
            begun = self._runtime.clock.monotonic()
            if user and await self._runtime.compute(lambda: b"right" if user.has(password) else b""):
                if self._users.get(name) is user:
                    self._proven[name] = shown
                return user
            await self._runtime.clock.sleep(max(0.0, begun + PENALTY - self._runtime.clock.monotonic()))
        return None
