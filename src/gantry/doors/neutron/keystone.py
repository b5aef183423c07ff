"""Keystone, the identity service of OpenStack, as the Neutron door asks it what a token is good for.

    POST /v3/auth/tokens    a token of the door's own account, for its password
    GET  /v3/auth/tokens    what somebody's token is good for; the own one goes along

The own token is renewed before it expires, and when Keystone rejects it; its password is read from its file each time.
After a failed login Keystone is left alone for a moment: whoever waits for one is told so, and an account is not locked
by its own service. Tokens limited by access rules are none here, as this client does not say that it knows them.
``tokens`` asks, and remembers the answers. Neither a token nor the password is ever logged or part of an error.
"""

import asyncio
import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib import parse

import msgspec

from gantry import errors
from gantry.runtime import interface

PATIENCE = 10.0
"""Seconds that Keystone has for an answer."""
MARGIN = 60.0
"""Seconds before its end at which the own token is renewed."""
PAUSE = 1.0
"""Seconds without another login after one that Keystone did not answer."""
LONG_PAUSE = 10.0
"""Seconds without another login after one that Keystone refused."""

_PATH = "/auth/tokens"
_PORTS = {"http": 80, "https": 443}


class Domain(msgspec.Struct, frozen=True):
    """What users and projects have their names in."""

    name: str = ""


class Owner(msgspec.Struct, frozen=True):
    """A user or a project."""

    id: str
    name: str = ""
    domain: Domain = Domain()


class Role(msgspec.Struct, frozen=True):
    """A role in the project of a token."""

    name: str


class Token(msgspec.Struct, frozen=True):
    """What a token is good for; without a project it is one for a domain, for the system or for nothing."""

    user: Owner
    expires_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    project: Owner | None = None
    roles: tuple[Role, ...] = ()

    @property
    def expires(self) -> float:
        """Return the end in seconds since the epoch."""
        return self.expires_at.timestamp()


class _Answer(msgspec.Struct):
    """A token that was looked up."""

    token: Token


class _Lifetime(msgspec.Struct):
    expires_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]


class _Login(msgspec.Struct):
    """The body of the answer to a login; the token itself is in a header."""

    token: _Lifetime


Decoded = TypeVar("Decoded", _Answer, _Login)


@dataclass(frozen=True)
class Place:
    """Where the identity API, version 3, is."""

    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, url: str) -> "Place":
        """Read an address with or without ``/v3``; InvalidError, also without TLS unless it is on this machine."""
        try:
            parts = parse.urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            parts, port = parse.urlsplit(""), 0
        host = parts.hostname or ""
        if not port or not host or parts.query or parts.fragment or "@" in parts.netloc:
            raise errors.InvalidError(
                f"{url!r} is no address of Keystone", hint="such as https://keystone.example:5000"
            )
        secure = parts.scheme == "https"
        if not secure and not _is_here(host):
            raise errors.InvalidError(f"without TLS passwords and tokens would be sent as they are to {host}")
        return cls(host, port, parts.path.rstrip("/").removesuffix("/v3") + "/v3", secure)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Account:
    """Who the door is at Keystone: a user with the role ``service`` or ``admin`` in a project; one domain for both."""

    user: str
    project: str
    domain: str
    password_file: str

    def password(self, disk: interface.Disk) -> str:
        """Return the password, the content of a file that is its owner's alone; ConfigurationError."""
        path = self.password_file
        try:
            mode, text = disk.status(path).mode, disk.read(path).decode().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.ConfigurationError(f"Keystone's password file {path} cannot be read: {error}") from None
        if mode & 0o077:
            raise errors.ConfigurationError(f"others than its owner may use {path}", hint=f"chmod 600 {path}")
        if not text:
            raise errors.ConfigurationError(f"there is no password in {path}")
        return text

    def request(self, password: str) -> bytes:
        """Return the body of a login."""
        user = {"name": self.user, "domain": {"id": self.domain}, "password": password}
        scope = {"project": {"name": self.project, "domain": {"id": self.domain}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        return msgspec.json.encode({"auth": {"identity": identity, "scope": scope}})


@dataclass(frozen=True)
class _Own:
    """The own token, and its end in seconds since the epoch."""

    token: str
    expires: float


class Service:
    """Keystone; ``close`` ends the connections."""

    def __init__(
        self, runtime: interface.Runtime, place: Place, account: Account, *, tls: ssl.SSLContext | None
    ) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._http = runtime.network.http_client(tls=tls)
        self._place = place
        self._account = account
        self._own: _Own | None = None
        self._turn = asyncio.Lock()
        self._pause = 0.0

    async def look_up(self, token: str) -> Token | None:
        """Return what a token is good for, None if for nothing; BusyError or ConfigurationError when nobody can say."""
        own = await self._login()
        answer = await self._ask(token, own)
        if answer.status == 401:
            answer = await self._ask(token, await self._login(rejected=own))
        if answer.status == 404:
            return None
        if answer.status == 403:
            raise errors.BusyError(
                f"Keystone does not let user {self._account.user} look tokens up",
                hint=f"give it the role service in project {self._account.project}",
            )
        return _decoded(answer, _Answer, wanted=200).token

    async def _ask(self, token: str, own: str) -> interface.HttpResponse:
        headers = {"x-auth-token": own, "x-subject-token": token, "accept": "application/json"}
        where = self._place
        try:
            path = f"{where.path}{_PATH}?nocatalog"
            return await self._http.request("GET", where.host, where.port, path, timeout=PATIENCE, headers=headers)
        except OSError as error:
            raise self._unreachable(error) from None

    async def _login(self, *, rejected: str = "") -> str:
        """Return the own token: a new one if there is none, or Keystone rejected it, or it ends soon."""
        async with self._turn:
            own = self._own
            if own and own.token != rejected and self._clock.now() < own.expires - MARGIN:
                return own.token
            if self._clock.monotonic() < self._pause:
                raise errors.BusyError("the last login at Keystone failed a moment ago")
            self._own, pause = None, PAUSE
            try:
                answer = await self._enter()
                pause = LONG_PAUSE if answer.status == 401 else PAUSE
                self._own = own = self._issued(answer)
                pause = 0.0
            finally:
                self._pause = self._clock.monotonic() + pause
            return own.token

    async def _enter(self) -> interface.HttpResponse:
        where = self._place
        body = self._account.request(self._account.password(self._disk))
        try:
            return await self._http.post(where.host, where.port, where.path + _PATH, body, timeout=PATIENCE)
        except OSError as error:
            raise self._unreachable(error) from None

    def _issued(self, answer: interface.HttpResponse) -> _Own:
        if answer.status == 401:
            raise errors.BusyError(
                f"Keystone refuses the login of user {self._account.user} for project {self._account.project}",
                hint=f"the password is that in {self._account.password_file}",
            )
        lifetime, token = _decoded(answer, _Login, wanted=201).token, answer.headers.get("x-subject-token")
        if not token:
            raise errors.BusyError("Keystone answered a login without a token")
        return _Own(token, lifetime.expires_at.timestamp())

    def _unreachable(self, error: OSError) -> errors.BusyError:
        where = f"Keystone at {self._place.host} port {self._place.port}"
        if isinstance(error, TimeoutError):
            return errors.BusyError(f"{where} did not answer within {PATIENCE:.0f} s")
        return errors.BusyError(f"{where} cannot be reached: {error.strerror or error}")

    async def close(self) -> None:
        """End the connections."""
        await self._http.close()


def _decoded(answer: interface.HttpResponse, kind: type[Decoded], *, wanted: int) -> Decoded:
    """Return the body of an answer; BusyError if it is another one, of which nothing is told but the status."""
    if answer.status != wanted:
        raise errors.BusyError(f"Keystone answered with the status {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.BusyError("Keystone's answer cannot be read") from None
