"""Sessions of people in a browser: after a log-in a cookie says who they are, instead of a password in each request.

The cookie is out of reach for scripts and is sent for requests of the daemon's own pages alone (``HttpOnly``,
``SameSite=Strict``; with TLS ``Secure`` and bound to the host, by the prefix ``__Host-``). As a second lock, a request
of a session that is not a GET has to repeat the session's token in the header ``X-Gantry-CSRF``, which a foreign page
can neither read nor send (OWASP, Cross-Site Request Forgery Prevention, "synchronizer token"). A WebSocket needs the
token, too, and a page of this server (``Sessions.of_socket``).

Sessions are in memory alone: they end with the process, ``IDLE_SECONDS`` after their last request, after
``LONGEST_SECONDS``, and when the user's line in the users file changes. Of the cookie, a digest is kept. A session that
an OpenID provider vouches for (``rapi.oidc``) has the same ends, but no line of the file.
"""

import hashlib
import hmac
from dataclasses import dataclass
from urllib import parse

from gantry.doors import http
from gantry.doors.http import users
from gantry.runtime import http_interface, interface

HEADER = "x-gantry-csrf"
"""The header with the token of a session; with any value it also says that a page's program sends the request."""

IDLE_SECONDS = 3600.0
LONGEST_SECONDS = 12 * 3600.0
USER_LIMIT = 100
"""Sessions of one user at a time; another one ends that which was used last the longest time ago."""

PROTOCOL = "gantry.console"
"""The protocol of a WebSocket, which the server chooses."""
TOKEN_PROTOCOL = "gantry.csrf."
"""What precedes the token in the name of another protocol that a WebSocket offers."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing (RFC 9110, section 9.2.1)."""


@dataclass
class Session:
    """A session that has begun; ``last_use`` and ``begin`` are times of ``Clock.monotonic``.

    ``id_token`` names the log-in to the OpenID provider when the user logs out.
    """

    digest: bytes
    user: users.User
    token: str
    begin: float
    last_use: float
    id_token: str = ""


class Sessions:
    """The sessions of a server; ``secure`` says that it is reached by TLS alone."""

    def __init__(self, runtime: interface.Runtime, known: users.Users, *, secure: bool) -> None:
        self._runtime = runtime
        self._known = known
        self._secure = secure
        self._name = "__Host-gantry-session" if secure else "gantry-session"
        self._sessions: dict[bytes, Session] = {}

    async def begin(self, name: str, password: str, *, peer: str) -> tuple[Session, str] | None:
        """Return a new session and the value of the header Set-Cookie; None if the password is wrong.

        Raises RefusedError 429 as ``users.Users.check`` does.
        """
        user = await self._known.check(name, password, peer=peer)
        return self.open(user) if user else None

    def open(self, user: users.User, *, id_token: str = "") -> tuple[Session, str]:
        """Return a new session of a user who has proven who it is, and the value of the header Set-Cookie."""
        self._remove_ended(user)
        secret, token = (self._runtime.random.token(32).hex() for _ in range(2))
        now = self._runtime.clock.monotonic()
        session = Session(_digest(secret), user, token, begin=now, last_use=now, id_token=id_token)
        self._sessions[session.digest] = session
        return session, self._cookie(secret)

    def find(self, raw: http_interface.Request) -> Session | None:
        """Return the session of a request, None if it has none or if that has ended.

        Raises RefusedError 403 for a change without the session's token.
        """
        session = self._sessions.get(_digest(self._secret(raw)))
        if session is None or not self.is_used(session):
            return None
        if raw.method not in SAFE_METHODS and not hmac.compare_digest(
            raw.headers.get(HEADER, "").encode(), session.token.encode()
        ):
            raise http.RefusedError(403, "the header X-Gantry-CSRF does not have the token of the session")
        return session

    def of_socket(self, raw: http_interface.Request) -> Session:
        """Return the session of a request that becomes a WebSocket.

        A page of any site may open one, with the cookie if the site is the same, and read what it sends. So the request
        has to come from a page of this server (the header Origin), and offer the session's token as a protocol, since
        it cannot have a header of the page's choice. Raises RefusedError: 401 without a session, 403.
        """
        origin = parse.urlsplit(raw.headers.get("origin", ""))
        is_own = origin.netloc != "" and origin.netloc == raw.headers.get("host", "")
        if not is_own or (self._secure and origin.scheme != "https"):
            raise http.RefusedError(403, "the header Origin does not name a page of this server")
        session = self.find(raw)
        if session is None:
            raise http.RefusedError(401, "nobody is logged in")
        offered = [each.strip() for each in raw.headers.get("sec-websocket-protocol", "").split(",")]
        expected = (TOKEN_PROTOCOL + session.token).encode()
        if PROTOCOL not in offered or not any(hmac.compare_digest(each.encode(), expected) for each in offered):
            raise http.RefusedError(403, f"the protocols of the WebSocket are not {PROTOCOL} and the session's token")
        return session

    def is_live(self, session: Session) -> bool:
        """Return whether a session has not ended."""
        now = self._runtime.clock.monotonic()
        return (
            session.digest in self._sessions
            and now - session.last_use < IDLE_SECONDS
            and now - session.begin < LONGEST_SECONDS
            and self._known.is_current(session.user)
        )

    def is_used(self, session: Session) -> bool:
        """Return whether a session has not ended, and count this as a use of it: an open stream is one."""
        if not self.is_live(session):
            return False
        session.last_use = self._runtime.clock.monotonic()
        return True

    def end(self, raw: http_interface.Request) -> str:
        """End the session of a request, and return the value of Set-Cookie that removes the cookie."""
        self._sessions.pop(_digest(self._secret(raw)), None)
        return self._cookie("") + "; Max-Age=0"

    def _remove_ended(self, user: users.User) -> None:
        """Remove sessions that have ended, and make room for one more of the user."""
        ended = [each for each in self._sessions.values() if not self.is_live(each)]
        of_user = [each for each in self._sessions.values() if each.user.name == user.name and each not in ended]
        of_user.sort(key=lambda each: each.last_use, reverse=True)
        for each in (*ended, *of_user[USER_LIMIT - 1 :]):
            del self._sessions[each.digest]

    def _cookie(self, secret: str) -> str:
        return f"{self._name}={secret}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if self._secure else "")

    def _secret(self, raw: http_interface.Request) -> str:
        return cookie_value(raw, self._name)


def cookie_value(raw: http_interface.Request, wanted_name: str) -> str:
    """Return the value of a cookie of a request, empty if the request does not have the cookie."""
    for pair in raw.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted_name:
            return value
    return ""


def is_of_page(raw: http_interface.Request) -> bool:
    """Return whether the program of a page sends a request: at a challenge the browser would ask for a password itself.

    A stream of events cannot have a header of the page's choice, but browsers say that it is not a navigation.
    """
    return HEADER in raw.headers or raw.headers.get("sec-fetch-mode", "navigate") != "navigate"


def check_origin(raw: http_interface.Request) -> None:
    """Raise RefusedError 403 for a change that a browser sends for a page of another site.

    A browser says so in the header Sec-Fetch-Site (W3C, Fetch Metadata Request Headers); other clients do not send it.
    It matters for a password that the browser itself keeps, and adds to each request.
    """
    if raw.method not in SAFE_METHODS and raw.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise http.RefusedError(403, "a page of another site may not change this cluster")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
