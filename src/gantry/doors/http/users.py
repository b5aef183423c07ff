"""Users of the HTTP front ends: the users file, and the check of passwords.

A line of ``lib/users`` has one of two forms (contracts/remote-api.md#users-file):

    alice:$2y$10$...                      form of htpasswd, bcrypt (``htpasswd -B``): may do everything
    bob {HA1}0123... write                name, password, options separated by commas

A password of the second form is plain text, ``{cleartext}`` and plain text, ``{HA1}`` and the MD5 of
``name:REALM:password``, or bcrypt. The option ``write`` allows everything, ``read`` allows the reads that are not open
to all; the Neutron front end interprets ``project=NAME`` and ``role=NAME``. An invalid line is ignored. The file is
read again after a change; no part of a password is ever logged.

Wrong passwords are answered slowly, and few are checked of each user and peer (``attempts``), to make guessing
expensive; a right password that has been checked in the last minutes is accepted at once. Of it, a digest is in memory,
with a key that is made when the process starts and never stored.
"""

import base64
import binascii
import functools
import hashlib
import hmac
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

import bcrypt

from gantry.doors import http
from gantry.doors.http import attempts
from gantry.runtime import interface, limits

log = logging.getLogger(__name__)

REALM = "Ganeti Remote API"
WRONG_PASSWORD_SECONDS = 1.0
"""Minimum seconds until the answer to a wrong password, also for a user that does not exist."""
MAX_DELAYED = 32
"""Answers to wrong passwords that are delayed at a time; more are 429 at once, so that other requests have room."""

REMEMBERED_SECONDS = 600.0
"""For how long a right password is accepted without another check, from its last use on."""

BCRYPT_BYTES = 72
"""Number of bytes of a password that bcrypt uses; htpasswd ignores the remaining bytes, too."""

OIDC = "oidc:"
"""What the names of users and groups of an OpenID provider begin with: names of the file and of the system, which have
no colon, are never equal to them."""

_BCRYPT = ("$2a$", "$2b$", "$2y$")
_HA1 = "{ha1}"
_CLEARTEXT = "{cleartext}"


@dataclass(frozen=True)
class Token:
    """The API token of a request: its UUID, its name, and what it allows: everything, read or roles."""

    uuid: str
    name: str
    extent: str


@dataclass(frozen=True)
class User:
    """A user of the users file, or of an OpenID provider: then without a password, and with the provider's groups.

    The groups begin with ``OIDC`` too, as access rules name them. In a request with a ``token`` the user may not do
    more than the token allows.
    """

    name: str
    password: str
    options: frozenset[str]
    groups: tuple[str, ...] = ()
    token: Token | None = None

    @property
    def is_of_provider(self) -> bool:
        """Return whether the user is one of an OpenID provider."""
        return self.name.startswith(OIDC)

    @property
    def title(self) -> str:
        """Return the text that names the user in the access log; of a name in the users file, no part has a colon."""
        return f"{self.name}:{self.token.name}" if self.token else self.name

    @property
    def may_write(self) -> bool:
        """Return whether the user may change everything; the roles of a token are the master's to decide about."""
        return "write" in self.options and (self.token is None or self.token.extent == "everything")

    @property
    def may_read(self) -> bool:
        """Return whether the user may make the reads that are not open to all."""
        return bool(self.options & {"read", "write"})

    def has(self, password: str) -> bool:
        """Return whether this is the user's password; deliberately slow for bcrypt."""
        expected, presented = self.password, password
        if self.is_of_provider:
            return False
        if expected.startswith(_BCRYPT):
            try:
                return bcrypt.checkpw(presented.encode()[:BCRYPT_BYTES], expected.encode())
            except ValueError:
                return False
        if expected.lower().startswith(_HA1):
            expected = expected[len(_HA1) :].lower()
            presented = hashlib.md5(f"{self.name}:{REALM}:{password}".encode()).hexdigest()
        elif expected.lower().startswith(_CLEARTEXT):
            expected = expected[len(_CLEARTEXT) :]
        return hmac.compare_digest(expected.encode(), presented.encode())


def _user(line: str) -> User | None:
    name, colon, password = line.partition(":")
    if colon and name and not any(map(str.isspace, name)):
        return User(name, password, frozenset({"write"})) if password.startswith(_BCRYPT) else None
    words = line.split()
    if not 2 <= len(words) <= 3:
        return None
    return User(words[0], words[1], frozenset(words[2].split(",")) if len(words) == 3 else frozenset())


def parse(text: str) -> dict[str, User]:
    """Return the users of a file by name; skip invalid lines, and log their numbers."""
    users: dict[str, User] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        user = _user(line)
        if user:
            users[user.name] = user
        else:
            log.warning(
                "line %d of the users file is ignored: it is neither 'name:bcrypt' nor 'name password options'", number
            )
    return users


def login(header: str) -> tuple[str, str] | None:
    """Return name and password of an Authorization header, None if it does not have the basic form."""
    scheme, _, encoded = header.partition(" ")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if scheme.lower() == "basic" else None


class Users:
    """The users of a file; without the file there are no users."""

    def __init__(self, runtime: interface.Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._file_version: tuple[float, int] | None = None
        self._users: dict[str, User] = {}
        self._secret = runtime.random.token(32)
        self._proven: dict[str, tuple[bytes, float]] = {}
        self._delayed = 0
        self._attempts = attempts.Attempts(runtime.clock)

    def _refresh(self) -> None:
        """Read the file again if its time or size has changed."""
        try:
            status = self._runtime.disk.status(self._path)
            version = (status.mtime, status.size)
            if version == self._file_version:
                return
            users = parse(self._runtime.disk.read(self._path).decode())
        except FileNotFoundError:
            version, users = None, {}
        except (OSError, UnicodeDecodeError) as error:
            log.error("the users file %s cannot be read, all users are refused: %s", self._path, type(error).__name__)
            version, users = None, {}
        self._file_version, self._users = version, users
        self._proven.clear()

    def get(self, name: str) -> User | None:
        """Return a user by name, without a check of the password; None if there is no such user."""
        self._refresh()
        return self._users.get(name)

    def is_current(self, user: User) -> bool:
        """Return whether the file still has a user exactly like this; it does not decide about those of a provider."""
        return user.is_of_provider or self.get(user.name) == user

    def all(self) -> Sequence[User]:
        """Return all users."""
        self._refresh()
        return list(self._users.values())

    async def check(self, name: str, password: str, *, peer: str) -> User | None:
        """Return the user if the password is right, otherwise None, after a delay.

        ``peer`` is the client's address; RefusedError 429 if too many attempts of that user and address wait.
        """
        self._refresh()
        user = self._users.get(name)
        digest = hmac.digest(self._secret, password.encode(), "sha256")
        start = self._runtime.clock.monotonic()
        proven, last_use = self._proven.get(name, (b"", start))
        if user and start - last_use < REMEMBERED_SECONDS and hmac.compare_digest(proven, digest):
            self._proven[name] = digest, start
            return user
        verify = functools.partial(self._verify, user, password, digest)
        return user if await self.attempt(name if user else "", digest, verify, peer=peer) else None

    async def attempt(
        self, name: str, digest: bytes, verify: Callable[[], Coroutine[object, object, bool]], *, peer: str
    ) -> bool:
        """Return what ``verify`` returns about a secret with this digest, within the limits of attempts of a user.

        ``name`` is empty for a user who does not exist. A wrong secret is answered after a delay; RefusedError 429.
        """
        start = self._runtime.clock.monotonic()
        is_right = await self._attempts.check((name, limits.peer_of(peer)), digest, verify)
        if is_right is None:
            raise http.too_many_attempts()
        if is_right:
            return True
        if self._delayed >= MAX_DELAYED:
            raise http.too_many_attempts()
        self._delayed += 1
        try:
            end = start + WRONG_PASSWORD_SECONDS
            await self._runtime.clock.sleep(max(0.0, end - self._runtime.clock.monotonic()))
        finally:
            self._delayed -= 1
        return False

    async def _verify(self, user: User | None, password: str, digest: bytes) -> bool:
        if user is None or not await self._runtime.compute(lambda: b"right" if user.has(password) else b""):
            return False
        if self._users.get(user.name) is user:
            self._proven[user.name] = digest, self._runtime.clock.monotonic()
        return True
