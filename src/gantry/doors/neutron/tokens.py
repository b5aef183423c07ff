"""Keystone's tokens for the Neutron API: an ``access.Authenticator`` that asks Keystone and caches its answers.

The rules are those of Keystone's middleware for OpenStack services: the token is in ``X-Auth-Token``; without a valid
token the answer is 401 with Keystone's address, and 503 if Keystone cannot be asked. Keystone's answer about a token is
cached for a time, but not beyond the expiry of the token, under a keyed digest of the token. So a revoked token is
accepted for at most that time. Concurrent requests with the same token share one request to Keystone.

A token belongs to a user in one project. Of its roles only ``admin``, ``member`` and ``reader`` count, and the highest
of them applies.
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

CACHE_SECONDS = 60.0
"""Default time for which the answer about a valid token is cached."""
INVALID_CACHE_SECONDS = 10.0
"""Maximum time for which the answer about an invalid token is cached."""
VALID_LIMIT, INVALID_LIMIT = 10_000, 1_000
"""How many valid and invalid tokens are cached; separate limits, so that guesses do not evict valid tokens."""
MAX_LENGTH = 8000
"""Maximum length of a token, in characters, that fits into a header of a request to Keystone."""

_ROLES = {"admin": access.Role.ADMIN, "member": access.Role.MEMBER, "reader": access.Role.READER}


class Source(Protocol):
    """A service that validates tokens (``keystone.Service``)."""

    async def look_up(self, token: str) -> keystone.Token | None:
        """Return a token's data, None if it is invalid; GantryError if it cannot be validated now."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


@dataclass(frozen=True)
class _CachedAnswer:
    """A cached answer about a token, and until when (``Clock.monotonic``) it is used."""

    token: keystone.Token | None
    until: float


@dataclass
class _Cache:
    """The last answers about valid or about invalid tokens, by digest of the token."""

    size: int
    answers: dict[bytes, _CachedAnswer] = field(default_factory=dict)

    def put(self, key: bytes, known: _CachedAnswer) -> None:
        """Add an answer; if the cache is full, remove the oldest."""
        self.answers.pop(key, None)
        self.answers[key] = known
        if len(self.answers) > self.size:
            del self.answers[next(iter(self.answers))]


class Tokens:
    """Accepts users with a valid token of Keystone; ``close`` cancels running requests."""

    def __init__(
        self, runtime: interface.Runtime, source: Source, *, address: str, lifetime: float = CACHE_SECONDS
    ) -> None:
        self._clock = runtime.clock
        self._source = source
        self._challenge = f'Keystone uri="{address}"'
        self._lifetime = lifetime
        self._key = runtime.random.token(32)
        self._valid, self._invalid = _Cache(VALID_LIMIT), _Cache(INVALID_LIMIT)
        self._lookups: dict[bytes, asyncio.Task[keystone.Token | None]] = {}
        self._failing = False

    async def person(self, headers: Mapping[str, str], peer: str) -> access.Person:
        """Return the user of a token; MiddlewareError 401, 403 if it has no role in a project, or 503."""
        text = headers.get("x-auth-token", "")
        token = await self._token(text) if _is_plausible(text) else None
        if token is None or token.expires <= self._clock.now():
            raise faults.unauthorized(self._challenge)
        person = of_token(token)
        if person is None:
            raise faults.no_role(_ROLES)
        return person

    async def _token(self, text: str) -> keystone.Token | None:
        key = hmac.digest(self._key, text.encode(), "sha256")
        known = self._valid.answers.get(key) or self._invalid.answers.get(key)
        if known and self._clock.monotonic() < known.until:
            return known.token
        if key not in self._lookups:
            # A separate task, as the first request may be canceled while others wait.
            self._lookups[key] = asyncio.ensure_future(self._look_up(key, text))
        return await asyncio.shield(self._lookups[key])

    async def _look_up(self, key: bytes, text: str) -> keystone.Token | None:
        try:
            token = await self._source.look_up(text)
        except errors.GantryError as error:
            self._log_change(str(error))
            raise faults.unavailable() from None
        finally:
            del self._lookups[key]
        self._log_change("")
        now = self._clock.monotonic()
        self._valid.answers.pop(key, None)
        if token is None:
            self._invalid.put(key, _CachedAnswer(None, now + min(INVALID_CACHE_SECONDS, self._lifetime)))
        else:
            self._valid.put(key, _CachedAnswer(token, now + self._lifetime))
        return token

    def _log_change(self, failure: str) -> None:
        """Log when Keystone begins to fail and when it answers again, but not for each request."""
        if failure and not self._failing:
            log.error("Keystone cannot validate tokens: %s", failure)
        elif self._failing and not failure:
            log.info("Keystone can validate tokens again")
        self._failing = bool(failure)

    async def close(self) -> None:
        """Cancel the requests and end the connections."""
        lookups = list(self._lookups.values())
        for task in lookups:
            task.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)
        await self._source.close()


def _is_plausible(text: str) -> bool:
    """Return whether a text can be a token, which is then sent to Keystone in a header."""
    return 0 < len(text) <= MAX_LENGTH and text.isascii() and text.isprintable() and " " not in text


def of_token(token: keystone.Token) -> access.Person | None:
    """Return the user of a valid token; None without a project, or without a role that counts."""
    roles = [_ROLES[role.name.lower()] for role in token.roles if role.name.lower() in _ROLES]
    if token.project is None or not roles:
        return None
    return access.Person(f"{token.user.name}@{token.user.domain.name}", token.project.id, max(roles))
