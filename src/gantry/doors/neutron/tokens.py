"""Keystone's tokens at the Neutron door: an ``access.Authenticator`` that asks Keystone, and remembers what it said.

The rules are those of the middleware that services of OpenStack have for it: the token is in ``X-Auth-Token``; without
a good one the answer is 401 with Keystone's address, and 503 when Keystone cannot be asked. What Keystone said of a
token is remembered for a time, never longer than the token is good for, under a keyed digest of the token; so a token
that is revoked is let in for that time at most. Requests with one token at the same moment share one question.

A token is somebody's in one project. Of its roles ``admin``, ``member`` and ``reader`` count, the mightiest of them.
"""

import asyncio
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gantry import errors
from gantry.doors.neutron import access, faults, keystone
from gantry.runtime import interface

log = logging.getLogger(__name__)

LIFETIME = 60.0
"""Seconds for which it is remembered what a token is good for, unless the daemon is told otherwise."""
REFUSED = 10.0
"""Seconds for which it is remembered at most that a token is good for nothing."""
GOOD, BAD = 10_000, 1_000
"""How many tokens of each kind are remembered: guesses do not drive out those that are good."""
LONGEST = 8000
"""Characters of a token that a request to Keystone can carry."""

_ROLES = {"admin": access.Role.ADMIN, "member": access.Role.MEMBER, "reader": access.Role.READER}


class Source(Protocol):
    """Who knows tokens (``keystone.Service``)."""

    async def look_up(self, token: str) -> keystone.Token | None:
        """Return what a token is good for, None if for nothing; GantryError when nobody can say."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


@dataclass(frozen=True)
class _Known:
    """What was said of a token, and until when (``Clock.monotonic``) it need not be asked again."""

    token: keystone.Token | None
    until: float


@dataclass
class _Memory:
    """The last answers of a kind, by digest of the token."""

    size: int
    found: dict[bytes, _Known] = field(default_factory=dict)

    def put(self, key: bytes, known: _Known) -> None:
        """Remember an answer in the place of the oldest."""
        self.found.pop(key, None)
        self.found[key] = known
        if len(self.found) > self.size:
            del self.found[next(iter(self.found))]


class Tokens:
    """Lets in whose token Keystone knows; ``close`` ends what is under way."""

    def __init__(self, runtime: interface.Runtime, source: Source, *, address: str, lifetime: float = LIFETIME) -> None:
        self._clock = runtime.clock
        self._source = source
        self._challenge = f'Keystone uri="{address}"'
        self._lifetime = lifetime
        self._key = runtime.random.token(32)
        self._good, self._bad = _Memory(GOOD), _Memory(BAD)
        self._asking: dict[bytes, asyncio.Task[keystone.Token | None]] = {}
        self._failing = False

    async def person(self, headers: Mapping[str, str]) -> access.Person:
        """Return whose token it is; MiddlewareError 401, 403 for one without a role in a project, 503."""
        shown = headers.get("x-auth-token", "")
        token = await self._token(shown) if _may_be_one(shown) else None
        if token is None or token.expires <= self._clock.now():
            raise faults.unauthorized(self._challenge)
        person = of_token(token)
        if person is None:
            raise faults.no_role(_ROLES)
        return person

    async def _token(self, shown: str) -> keystone.Token | None:
        key = hmac.digest(self._key, shown.encode(), "sha256")
        known = self._good.found.get(key) or self._bad.found.get(key)
        if known and self._clock.monotonic() < known.until:
            return known.token
        if key not in self._asking:
            # a task of its own: whoever asked first may go away while others wait
            self._asking[key] = asyncio.ensure_future(self._ask(key, shown))
        return await asyncio.shield(self._asking[key])

    async def _ask(self, key: bytes, shown: str) -> keystone.Token | None:
        try:
            token = await self._source.look_up(shown)
        except errors.GantryError as error:
            self._note(str(error))
            raise faults.unavailable() from None
        finally:
            del self._asking[key]
        self._note("")
        now = self._clock.monotonic()
        self._good.found.pop(key, None)
        if token is None:
            self._bad.put(key, _Known(None, now + min(REFUSED, self._lifetime)))
        else:
            self._good.put(key, _Known(token, now + self._lifetime))
        return token

    def _note(self, failure: str) -> None:
        """Write down when Keystone begins to fail and when it is there again, not each request."""
        if failure and not self._failing:
            log.error("tokens cannot be checked: %s", failure)
        elif self._failing and not failure:
            log.info("tokens can be checked again")
        self._failing = bool(failure)

    async def close(self) -> None:
        """End the questions and the connections."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._source.close()


def _may_be_one(shown: str) -> bool:
    """Tell whether a text can be a token at all: others are not sent on in a header."""
    return 0 < len(shown) <= LONGEST and shown.isascii() and shown.isprintable() and " " not in shown


def of_token(token: keystone.Token) -> access.Person | None:
    """Return who somebody is by a token; None without a project, or a role that means something here."""
    roles = [_ROLES[one.name.lower()] for one in token.roles if one.name.lower() in _ROLES]
    if token.project is None or not roles:
        return None
    return access.Person(f"{token.user.name}@{token.user.domain.name}", token.project.id, max(roles))
