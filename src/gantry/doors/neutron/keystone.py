"""A client of Keystone, the identity service of OpenStack, which validates the tokens of Neutron API requests.

    POST /v3/auth/tokens    issues a token for the service account of this front end, for its password
    GET  /v3/auth/tokens    validates a user's token; the service token authenticates the request

The service token is renewed before it expires, and when Keystone rejects it; the password is read from its file each
time. After a failed login there is a back-off, in which requests fail at once, so that the service does not lock its
own account. Keystone rejects tokens with access rules, as this client does not announce support for them. ``tokens``
calls this module and caches the answers. Neither a token nor the password is ever logged or part of an error.
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
from gantry.runtime import http_interface, interface

TIMEOUT_SECONDS = 10.0
"""Timeout of a request to Keystone."""
RENEWAL_SECONDS = 60.0
"""How long before its expiry the service token is renewed."""
BACK_OFF_SECONDS = 1.0
"""Back-off after a login that Keystone did not answer."""
REFUSED_BACK_OFF_SECONDS = 10.0
"""Back-off after a login that Keystone refused."""

_PATH = "/auth/tokens"
_PORTS = {"http": 80, "https": 443}


class Domain(msgspec.Struct, frozen=True):
    """A domain, the namespace of users and projects."""

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
    """A valid token; without a project its scope is a domain or the system, or it has no scope."""

    user: Owner
    expires_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    project: Owner | None = None
    roles: tuple[Role, ...] = ()

    @property
    def expires(self) -> float:
        """Return the expiry in seconds since the epoch."""
        return self.expires_at.timestamp()


class _Validation(msgspec.Struct):
    """The answer to the validation of a token."""

    token: Token


class _Lifetime(msgspec.Struct):
    expires_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]


class _Login(msgspec.Struct):
    """The body of the answer to a login; the token itself is in a header."""

    token: _Lifetime


Decoded = TypeVar("Decoded", _Validation, _Login)


@dataclass(frozen=True)
class Address:
    """The address of the identity API, version 3."""

    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Parse a URL with or without ``/v3``; InvalidError, also without TLS unless it is on the loopback."""
        try:
            parts = parse.urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            parts, port = parse.urlsplit(""), 0
        host = parts.hostname or ""
        if not port or not host or parts.query or parts.fragment or "@" in parts.netloc:
            raise errors.InvalidError(
                f"{url!r} is not a URL of Keystone", hint="write, for example, https://keystone.example:5000"
            )
        secure = parts.scheme == "https"
        if not secure and not _is_loopback(host):
            raise errors.InvalidError(f"without TLS passwords and tokens would be sent in clear text to {host}")
        return cls(host, port, parts.path.rstrip("/").removesuffix("/v3") + "/v3", secure)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Account:
    """The service account: a user with the role ``service`` or ``admin`` in a project of the same domain."""

    user: str
    project: str
    domain: str
    password_file: str

    def password(self, disk: interface.Disk) -> str:
        """Return the password from its file, which only its owner may access; ConfigurationError."""
        path = self.password_file
        try:
            mode, text = disk.status(path).mode, disk.read(path).decode().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.ConfigurationError(f"Keystone's password file {path} cannot be read: {error}") from None
        if mode & 0o077:
            raise errors.ConfigurationError(
                f"users other than its owner can access Keystone's password file {path}", hint=f"run chmod 600 {path}"
            )
        if not text:
            raise errors.ConfigurationError(f"Keystone's password file {path} is empty")
        return text

    def request(self, password: str) -> bytes:
        """Return the body of a login request."""
        user = {"name": self.user, "domain": {"id": self.domain}, "password": password}
        scope = {"project": {"name": self.project, "domain": {"id": self.domain}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        return msgspec.json.encode({"auth": {"identity": identity, "scope": scope}})


@dataclass(frozen=True)
class _ServiceToken:
    """The service token, and its expiry in seconds since the epoch."""

    token: str
    expires: float


class Service:
    """A client of Keystone; ``close`` ends its connections."""

    def __init__(
        self, runtime: interface.Runtime, address: Address, account: Account, *, tls: ssl.SSLContext | None
    ) -> None:
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._http = runtime.network.http_client(tls=tls)
        self._address = address
        self._account = account
        self._service_token: _ServiceToken | None = None
        self._login_lock = asyncio.Lock()
        self._back_off_until = 0.0

    async def look_up(self, token: str) -> Token | None:
        """Return a token's data, None if it is invalid; BusyError or ConfigurationError if Keystone cannot be asked."""
        service_token = await self._login()
        answer = await self._ask(token, service_token)
        if answer.status == 401:
            answer = await self._ask(token, await self._login(rejected=service_token))
        if answer.status == 404:
            return None
        if answer.status == 403:
            raise errors.BusyError(
                f"Keystone does not allow user {self._account.user} to validate tokens",
                hint=f"assign the role service in project {self._account.project} to that user",
            )
        return _decode(answer, _Validation, expected_status=200).token

    async def _ask(self, token: str, service_token: str) -> http_interface.Response:
        headers = {"x-auth-token": service_token, "x-subject-token": token, "accept": "application/json"}
        address = self._address
        try:
            path = f"{address.path}{_PATH}?nocatalog"
            return await self._http.request(
                "GET", address.host, address.port, path, timeout=TIMEOUT_SECONDS, headers=headers
            )
        except OSError as error:
            raise self._unreachable(error) from None

    async def _login(self, *, rejected: str = "") -> str:
        """Return the service token; log in if there is none, if it expires soon, or if it is the ``rejected`` token."""
        async with self._login_lock:
            service_token = self._service_token
            if (
                service_token
                and service_token.token != rejected
                and self._clock.now() < service_token.expires - RENEWAL_SECONDS
            ):
                return service_token.token
            if self._clock.monotonic() < self._back_off_until:
                raise errors.BusyError("the last login at Keystone failed a short time ago")
            self._service_token, back_off = None, BACK_OFF_SECONDS
            try:
                answer = await self._send_login()
                back_off = REFUSED_BACK_OFF_SECONDS if answer.status == 401 else BACK_OFF_SECONDS
                self._service_token = service_token = self._read_token(answer)
                back_off = 0.0
            finally:
                self._back_off_until = self._clock.monotonic() + back_off
            return service_token.token

    async def _send_login(self) -> http_interface.Response:
        address = self._address
        body = self._account.request(self._account.password(self._disk))
        try:
            return await self._http.post(
                address.host, address.port, address.path + _PATH, body, timeout=TIMEOUT_SECONDS
            )
        except OSError as error:
            raise self._unreachable(error) from None

    def _read_token(self, answer: http_interface.Response) -> _ServiceToken:
        if answer.status == 401:
            raise errors.BusyError(
                f"Keystone refused the login of user {self._account.user} for project {self._account.project}",
                hint=f"check the password in {self._account.password_file}",
            )
        lifetime, token = _decode(answer, _Login, expected_status=201).token, answer.headers.get("x-subject-token")
        if not token:
            raise errors.BusyError("Keystone's answer to a login has no token")
        return _ServiceToken(token, lifetime.expires_at.timestamp())

    def _unreachable(self, error: OSError) -> errors.BusyError:
        address = f"Keystone at {self._address.host} port {self._address.port}"
        if isinstance(error, TimeoutError):
            return errors.BusyError(f"{address} did not answer within {TIMEOUT_SECONDS:.0f} s")
        return errors.BusyError(f"{address} cannot be reached: {error.strerror or error}")

    async def close(self) -> None:
        """End the connections."""
        await self._http.close()


def _decode(answer: http_interface.Response, kind: type[Decoded], *, expected_status: int) -> Decoded:
    """Return the decoded body of an answer; BusyError, with the status only, if the answer is unexpected."""
    if answer.status != expected_status:
        raise errors.BusyError(f"Keystone answered with the unexpected status {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.BusyError("Keystone's answer is not valid") from None
