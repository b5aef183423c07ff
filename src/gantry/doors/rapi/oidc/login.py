"""A log-in by OpenID Connect, from the button in the console to the session, and the log-out.

``begin`` leads a browser to the provider, and gives it a cookie for ``LOGIN_SECONDS``: a secret, sealed with a key of
this process. The state, the nonce and the verifier of PKCE are derived from it, so an answer of the provider counts
only in the browser that asked. The cookie is sent along when the provider leads the browser back (``SameSite=Lax``).
``finish`` uses a secret once. Why a log-in failed is a cookie too, which the log-in page shows once: a text in an
address could be anybody's.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib import parse

import msgspec

from gantry import errors
from gantry.doors.http import sessions
from gantry.doors.rapi.oidc import claims as oidc_claims
from gantry.doors.rapi.oidc import provider as oidc_provider
from gantry.runtime import http_interface, interface, limits, repeated_logs

log = logging.getLogger(__name__)

LOGIN_SECONDS = 600.0
"""How long somebody may take to log in at the provider."""
IN_WORK, IN_WORK_OF_PEER = 32, 8
"""Log-ins that wait for the provider at a time, of all browsers and of one address; more are refused."""
MAX_USED = 10_000
"""Secrets of log-ins that are remembered as used; they end after ``LOGIN_SECONDS``, and the oldest before that."""
HINT_CHARACTERS = 4096
"""The longest ID token that is repeated at the log-out: it is a part of an address."""
FAILURE_CHARACTERS = 400
FAILURE_SECONDS = 60

_PAGE = re.compile(r"#/[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{0,500}")
"""A page of the console, as the part of its address that the browser keeps."""
_CODE = re.compile(r"[!-~]{1,4000}")
_ERRORS: Mapping[str, str] = {
    "access_denied": "the OpenID provider did not let you log in",
    "login_required": "the OpenID provider asks you to log in there first",
    "temporarily_unavailable": "the OpenID provider is busy; try again",
    "server_error": "the OpenID provider failed; try again",
    "invalid_scope": "the OpenID provider does not know a scope of --oidc-scopes",
    "unauthorized_client": "the OpenID provider does not allow this log-in to the client of --oidc-client-id",
}
"""The errors of a provider that have a text (OpenID Connect Core 1.0, section 3.1.2.6; RFC 6749, section 4.1.2.1)."""


_OF_THE_MACHINE = "the remote API is not set up right for the OpenID provider; its log says why"


class _Begun(msgspec.Struct):
    """The content of the cookie; ``until`` is a time of ``Clock.monotonic``."""

    secret: str
    until: float
    page: str


class SignOn:
    """The log-in of a server; ``name`` is what people call the provider, ``secure`` that it is reached by TLS alone."""

    def __init__(
        self,
        runtime: interface.Runtime,
        provider: oidc_provider.Provider,
        mapped: oidc_claims.Mapped,
        known: sessions.Sessions,
        *,
        name: str,
        secure: bool,
    ) -> None:
        self._runtime = runtime
        self._provider = provider
        self._mapped = mapped
        self._sessions = known
        self._secure = secure
        self._key = runtime.random.token(32)
        self._used: dict[str, float] = {}
        self._in_work: dict[str, int] = {}
        self._failures = repeated_logs.RepeatedLog(log)
        self.name = name

    @property
    def address(self) -> str:
        """Return where a log-in begins: below the address that the provider knows, so that the cookie is for it."""
        return self._provider.client.public_url.below("/2/session/oidc").text

    async def begin(self, page: str, *, peer: str) -> tuple[str, str]:
        """Return the address of the provider for a log-in, and the value of Set-Cookie; BusyError.

        ``page`` is the page of the console to which the log-in leads; any other text leads to the first page.
        """
        with self._work(peer):
            endpoints = await self._provider.endpoints()
        client, now = self._provider.client, self._runtime.clock.monotonic()
        page = page if _PAGE.fullmatch(page) else ""
        begun = _Begun(self._runtime.random.token(32).hex(), now + LOGIN_SECONDS, page)
        challenge = hashlib.sha256(self._derived("verifier", begun).encode()).digest()
        arguments = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.callback,
            "scope": " ".join(client.scopes),
            "state": self._derived("state", begun),
            "nonce": self._derived("nonce", begun),
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        cookie = self._cookie("login", self._sealed(begun), int(LOGIN_SECONDS), same_site="Lax")
        return endpoints.authorization.with_query(arguments), cookie

    async def finish(self, raw: http_interface.Request, query: Mapping[str, Sequence[str]]) -> tuple[str, str]:
        """Return the page of the console after a log-in, and the value of Set-Cookie with its session.

        Raises ForbiddenError, BusyError, ConfigurationError; nobody is logged in then.
        """
        begun = self._begun(raw, _single(query, "state"))
        with self._work(raw.peer):
            endpoints = await self._provider.endpoints()
            issuer = _single(query, "iss")
            if (issuer or endpoints.names_issuer) and issuer != self._provider.client.issuer.text:
                raise errors.ForbiddenError("the answer to the log-in comes from another OpenID provider")
            code = _single(query, "code")
            if "error" in query or not _CODE.fullmatch(code):
                raise errors.ForbiddenError(
                    _ERRORS.get(
                        _single(query, "error"), "the OpenID provider refused the log-in without a known reason"
                    )
                )
            tokens = await self._provider.exchange(code, self._derived("verifier", begun))
            claims = await self._provider.claims(tokens.id_token, nonce=self._derived("nonce", begun))
            if any(name not in claims for name in self._mapped.names):
                claims = {**await self._provider.user_info(tokens, claims["sub"]), **claims}
        user = self._mapped.user(claims)
        hint = tokens.id_token if len(tokens.id_token) <= HINT_CHARACTERS else ""
        _, cookie = self._sessions.open(user, id_token=hint)
        log.info("user %s has logged in by OpenID Connect, as subject %.300r of the provider", user.name, claims["sub"])
        return begun.page, cookie

    def log_out_address(self, session: sessions.Session) -> str:
        """Return where a browser ends the session at the provider too; empty for another session or provider."""
        endpoints, client = self._provider.known_endpoints(), self._provider.client
        if not session.user.is_of_provider or endpoints is None or endpoints.end_session is None:
            return ""
        hint = {"id_token_hint": session.id_token} if session.id_token else {}
        return endpoints.end_session.with_query(
            {**hint, "client_id": client.client_id, "post_logout_redirect_uri": client.console}
        )

    def failed(self, error: errors.GantryError) -> str:
        """Log why a log-in failed; return the value of Set-Cookie with the reason for the log-in page."""
        self._failures.write(logging.WARNING, "log-ins by OpenID Connect that failed", "log-in failed: %.1000s", error)
        # Files of the machine are the business of its administrator alone.
        reason = _OF_THE_MACHINE if isinstance(error, errors.ConfigurationError) else str(error)
        return self._cookie("login-failure", parse.quote(reason[:FAILURE_CHARACTERS], safe=""), FAILURE_SECONDS)

    def failure(self, raw: http_interface.Request) -> str:
        """Return why the last log-in of a browser failed; empty if it did not."""
        text = parse.unquote(sessions.cookie_value(raw, self._cookie_name("login-failure")))
        return text.encode(errors="replace").decode()[:FAILURE_CHARACTERS]

    def forget_failure(self) -> str:
        """Return the value of Set-Cookie that removes the reason of a failure."""
        return self._cookie("login-failure", "", 0)

    def _begun(self, raw: http_interface.Request, state: str) -> _Begun:
        """Return the log-in that a browser has begun, and mark it as used; ForbiddenError."""
        begun, now = self._opened(sessions.cookie_value(raw, self._cookie_name("login"))), self._now()
        if begun is None or not _are_equal(state, self._derived("state", begun)):
            raise errors.ForbiddenError(
                "this browser has not begun this log-in, or has begun another one since", hint="log in again"
            )
        if now >= begun.until:
            raise errors.ForbiddenError(
                f"the log-in at the OpenID provider took longer than {LOGIN_SECONDS / 60:.0f} minutes",
                hint="log in again",
            )
        if begun.secret in self._used:
            raise errors.ForbiddenError("this log-in has been used", hint="log in again")
        self._used = {secret: until for secret, until in self._used.items() if until > now}
        if len(self._used) >= MAX_USED:
            del self._used[next(iter(self._used))]
        self._used[begun.secret] = begun.until
        return begun

    def _now(self) -> float:
        return self._runtime.clock.monotonic()

    def _derived(self, purpose: str, begun: _Begun) -> str:
        return hmac.digest(self._key, f"{purpose} {begun.secret}".encode(), "sha256").hex()

    def _sealed(self, begun: _Begun) -> str:
        content = base64.urlsafe_b64encode(msgspec.json.encode(begun))
        return f"{content.decode().rstrip('=')}.{self._seal(content)}"

    def _seal(self, content: bytes) -> str:
        return hmac.digest(self._key, b"cookie " + content, "sha256").hex()

    def _opened(self, value: str) -> _Begun | None:
        text, _, seal = value.partition(".")
        content = (text + "=" * (-len(text) % 4)).encode(errors="replace")
        if not _are_equal(seal, self._seal(content)):
            return None
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(content), type=_Begun)
        except (msgspec.DecodeError, binascii.Error):  # this process has sealed it: the content cannot be another
            return None

    @contextmanager
    def _work(self, peer: str) -> Iterator[None]:
        """Count a log-in that waits for the provider; BusyError if there are too many."""
        peer = limits.peer_of(peer)
        if sum(self._in_work.values()) >= IN_WORK or self._in_work.get(peer, 0) >= IN_WORK_OF_PEER:
            raise errors.BusyError("too many log-ins wait for the OpenID provider", hint="try again in a moment")
        self._in_work[peer] = self._in_work.get(peer, 0) + 1
        try:
            yield
        finally:
            self._in_work[peer] -= 1
            if not self._in_work[peer]:
                del self._in_work[peer]

    def _cookie_name(self, name: str) -> str:
        return f"__Host-gantry-{name}" if self._secure else f"gantry-{name}"

    def _cookie(self, name: str, value: str, seconds: int, *, same_site: str = "Strict") -> str:
        text = f"{self._cookie_name(name)}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={seconds}"
        return text + ("; Secure" if self._secure else "")


def _are_equal(presented: str, expected: str) -> bool:
    """Compare in a time that says nothing; what a client presents may have bytes that are no text."""
    return hmac.compare_digest(presented.encode(errors="replace"), expected.encode())


def _single(query: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the query argument that is there exactly once, otherwise an empty text."""
    values = query.get(name, ())
    return values[0] if len(values) == 1 else ""
