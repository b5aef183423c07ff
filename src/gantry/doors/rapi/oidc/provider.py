"""A client of an OpenID provider: its description (OpenID Connect Discovery 1.0), its keys, the exchange of a code.

    GET  ISSUER/.well-known/openid-configuration    the description, read again after an hour
    GET  jwks_uri                                   its keys: after an hour, and when a token names an unknown key
    POST token_endpoint                             the code of a log-in becomes an ID token and an access token
    GET  userinfo_endpoint                          claims that the ID token does not have

The provider may be slow, down, or lie: each answer has a time limit and a size limit, redirects are not followed, all
addresses need TLS like the issuer's, and after a failure requests fail at once for a while. Only log-ins wait for the
provider. The client's secret is read from its file each time; no secret, code or token is logged or part of an error.
"""

import asyncio
import base64
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib import parse

import msgspec

from gantry import errors
from gantry.doors.rapi.oidc import id_token
from gantry.model import urls
from gantry.runtime import http_interface, interface

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
"""Timeout of a request to the provider."""
ANSWER_BYTES = 256 << 10
"""The longest answer of the provider."""
LIFETIME_SECONDS = 3600.0
"""How long its description and its keys are used before they are read again."""
BACK_OFF_SECONDS = 5.0
"""How long requests fail at once after the description or the keys could not be read."""
KEYS_INTERVAL_SECONDS = 30.0
"""The shortest time between two requests for keys because a token names an unknown one."""

_DISCOVERY = "/.well-known/openid-configuration"
_FORM = "application/x-www-form-urlencoded"
_CODE = re.compile(r"[a-z_]{1,40}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,20000}=*")
"""An access token (RFC 6750, section 2.1)."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class Client:
    """This daemon as the provider knows it; without ``secret_file`` it has no secret, and PKCE alone protects a code.

    ``public_url`` is where browsers reach the daemon.
    """

    issuer: urls.Url
    client_id: str
    public_url: urls.Url
    secret_file: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")

    @property
    def callback(self) -> str:
        """Return the address to which the provider leads a browser after a log-in."""
        return self.public_url.below("/2/session/oidc/callback").text

    @property
    def console(self) -> str:
        """Return the address to which the provider leads a browser after a log-out."""
        return self.public_url.below("/console/").text

    def secret(self, disk: interface.Disk) -> str:
        """Return the secret from its file, which only its owner may access; ConfigurationError."""
        path = self.secret_file
        if not path:
            return ""
        try:
            mode, text = disk.status(path).mode, disk.read(path).decode().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.ConfigurationError(
                f"the file {path} with the secret of the OpenID client cannot be read: {error}",
                hint="write it, or add --oidc-public-client if the provider gave none",
            ) from None
        if mode & 0o077:
            raise errors.ConfigurationError(
                f"users other than its owner can access the file {path} with the secret of the OpenID client",
                hint=f"run chmod 600 {path}",
            )
        if not text:
            raise errors.ConfigurationError(f"the file {path} with the secret of the OpenID client is empty")
        return text


class _Description(msgspec.Struct):
    """What a provider says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool | None = None


@dataclass(frozen=True)
class Endpoints:
    """The addresses of a provider; ``posts_secret``: it wants the secret in the body. ``names_issuer``: RFC 9207."""

    authorization: urls.Url
    token: urls.Url
    keys: urls.Url
    user_info: urls.Url | None
    end_session: urls.Url | None
    posts_secret: bool
    names_issuer: bool


class _Keys(msgspec.Struct):
    keys: list[dict[str, object]]


class Tokens(msgspec.Struct):
    """The tokens that the provider returns for a code."""

    id_token: str
    access_token: str = ""


class _Refusal(msgspec.Struct):
    error: str = ""


class _Kept(Generic[T]):
    """What a provider publishes: read when it is needed, by one reader at a time, and kept for ``LIFETIME_SECONDS``."""

    def __init__(self, clock: interface.Clock, read: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._read = read
        self._value: T | None = None
        self._read_at = -math.inf
        self._failure = ""
        self._failed_at = -math.inf
        self._lock = asyncio.Lock()

    @property
    def age_seconds(self) -> float:
        """Return the time since the value was read."""
        return self._clock.monotonic() - self._read_at

    @property
    def last(self) -> T | None:
        """Return the value that was read last, however old it is."""
        return self._value

    async def get(self, *, instead_of: T | None = None) -> T:
        """Return the value, another one than ``instead_of``; BusyError, also for a while after a failure."""
        async with self._lock:
            if self._value is not None and self._value is not instead_of and self.age_seconds < LIFETIME_SECONDS:
                return self._value
            if self._failure and self._clock.monotonic() - self._failed_at < BACK_OFF_SECONDS:
                raise errors.BusyError(self._failure)
            try:
                self._value = await self._read()
            except errors.BusyError as error:
                self._failure, self._failed_at = str(error), self._clock.monotonic()
                raise
            self._failure, self._read_at = "", self._clock.monotonic()
            return self._value


class Provider:
    """A client of a provider; ``close`` ends its connections."""

    def __init__(self, runtime: interface.Runtime, client: Client, *, tls: ssl.SSLContext | None) -> None:
        self.client = client
        self._clock = runtime.clock
        self._disk = runtime.disk
        self._http = runtime.network.http_client(tls=tls)
        self._endpoints = _Kept(runtime.clock, self._read_endpoints)
        self._keys = _Kept(runtime.clock, self._read_keys)

    async def endpoints(self) -> Endpoints:
        """Return the addresses of the provider; BusyError."""
        return await self._endpoints.get()

    def known_endpoints(self) -> Endpoints | None:
        """Return the addresses without a request to the provider; None before the first log-in."""
        return self._endpoints.last

    async def exchange(self, code: str, verifier: str) -> Tokens:
        """Return the tokens for the code of a log-in; ForbiddenError if the provider refuses it, BusyError."""
        endpoints, client = await self.endpoints(), self.client
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.callback,
            "code_verifier": verifier,
        }
        headers = {"content-type": _FORM, "accept": "application/json"}
        secret = client.secret(self._disk)
        if not secret or endpoints.posts_secret:
            body |= {"client_id": client.client_id} | ({"client_secret": secret} if secret else {})
        else:
            headers["authorization"] = _basic(client.client_id, secret)
        answer = await self._ask("POST", endpoints.token, headers, parse.urlencode(body).encode())
        if answer.status in (400, 401, 403):
            raise errors.ForbiddenError(f"the OpenID provider refuses the code of the log-in: {_reason(answer)}")
        return _decode(answer, Tokens)

    async def claims(self, token: str, *, nonce: str) -> dict[str, object]:
        """Return the claims of an ID token for the log-in with a nonce; ForbiddenError, BusyError."""
        signed = id_token.signer(token)
        known = await self._keys.get()
        key = id_token.matching(known, signed)
        if key is None and self._keys.age_seconds >= KEYS_INTERVAL_SECONDS:
            key = id_token.matching(await self._keys.get(instead_of=known), signed)
        if key is None:
            raise errors.ForbiddenError("the ID token is signed with a key that the OpenID provider does not publish")
        issuer, client_id, now = self.client.issuer.text, self.client.client_id, self._clock.now()
        return id_token.check(token, key, signed, issuer=issuer, client_id=client_id, nonce=nonce, now=now)

    async def user_info(self, tokens: Tokens, subject: object) -> dict[str, object]:
        """Return more claims about the subject of an ID token, none if there are no more; ForbiddenError, BusyError."""
        url = (await self.endpoints()).user_info
        if url is None or not _TOKEN.fullmatch(tokens.access_token):
            return {}
        headers = {"authorization": f"Bearer {tokens.access_token}", "accept": "application/json"}
        claims = _decode(await self._ask("GET", url, headers), dict[str, object])
        if claims.get("sub") != subject:
            raise errors.ForbiddenError("the OpenID provider answers with the claims of another user")
        return claims

    async def _read_endpoints(self) -> Endpoints:
        issuer = self.client.issuer
        description = _decode(await self._ask("GET", issuer.below(_DISCOVERY)), _Description)
        if description.issuer != issuer.text:
            raise errors.BusyError(
                f"the OpenID provider at {issuer.text} calls itself {description.issuer[:200]!r}",
                hint="--oidc-issuer has to be the same, to the last slash",
            )
        methods = description.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise errors.BusyError("the OpenID provider does not support PKCE with S256")
        ways = description.token_endpoint_auth_methods_supported or ("client_secret_basic",)
        return Endpoints(
            authorization=self._url(description.authorization_endpoint),
            token=self._url(description.token_endpoint),
            keys=self._url(description.jwks_uri),
            user_info=self._url(description.userinfo_endpoint) if description.userinfo_endpoint else None,
            end_session=self._url(description.end_session_endpoint) if description.end_session_endpoint else None,
            posts_secret="client_secret_basic" not in ways and "client_secret_post" in ways,
            names_issuer=bool(description.authorization_response_iss_parameter_supported),
        )

    def _url(self, text: str) -> urls.Url:
        try:
            url = urls.Url.parse(text, "an address of the OpenID provider")
        except errors.InvalidError as error:
            raise errors.BusyError(error.message) from None
        if url.secure != self.client.issuer.secure:
            raise errors.BusyError(f"an address of the OpenID provider has not the scheme of its issuer: {text[:200]}")
        return url

    async def _read_keys(self) -> Sequence[id_token.Key]:
        return id_token.keys(_decode(await self._ask("GET", (await self.endpoints()).keys), _Keys).keys)

    async def _ask(
        self, method: str, url: urls.Url, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> http_interface.Response:
        where = f"the OpenID provider at {url.host} port {url.port}"
        try:
            return await self._http.request(
                method, url.host, url.port, url.path, body=body, timeout=TIMEOUT_SECONDS,
                headers=headers or {"accept": "application/json"}, answer_limit=ANSWER_BYTES,
            )  # fmt: skip
        except TimeoutError:
            raise errors.BusyError(f"{where} did not answer within {TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise errors.BusyError(f"{where} cannot be used: {error.strerror or error}") from None

    async def close(self) -> None:
        """End the connections."""
        await self._http.close()


def _basic(name: str, secret: str) -> str:
    """Return the header of a client with a secret (RFC 6749, section 2.3.1)."""
    pair = f"{parse.quote_plus(name)}:{parse.quote_plus(secret)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _reason(answer: http_interface.Response) -> str:
    """Return the code of a refusal (RFC 6749, section 5.2)."""
    try:
        reason = msgspec.json.decode(answer.body, type=_Refusal).error
    except _UNREADABLE:
        reason = ""
    return reason if _CODE.fullmatch(reason) else f"status {answer.status}"


def _decode(answer: http_interface.Response, kind: type[T]) -> T:
    """Return the decoded body of an answer; BusyError, with the status only, if the answer is unexpected."""
    if answer.status != 200:
        raise errors.BusyError(f"the OpenID provider answered with the unexpected status {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except _UNREADABLE:
        raise errors.BusyError("the answer of the OpenID provider is not valid") from None
