"""API tokens in requests: ``Authorization: Bearer TOKEN``, or the token in place of the user's password.

The text of a token (``model.token_text``) stays in this process. The master decides about its hash at each request, and
no decision is kept: a token that was revoked or has ended, and one whose user is no longer in the users file, is
refused from the next request on.

Wrong tokens are limited as wrong passwords are (``users.Users.attempt``): for each user and address, and the id in the
text says whose token it claims to be. A token that this process has proven before has no part in that, so wrong tokens
of others do not delay it.
"""

import dataclasses
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gantry.doors.http import users
from gantry.model import token_text
from gantry.runtime import interface

SCHEME = "bearer"
PROVEN = 20_000
"""How many tokens are remembered as proven; more than a cluster can have."""


@dataclass(frozen=True)
class Proof:
    """What the master says about a token: its UUID, its user and name, and what it allows."""

    uuid: str
    user: str
    name: str
    extent: str


Prove = Callable[[str, str], Awaitable[Proof | None]]
"""Returns the master's proof for the id of a token and the hash of its text; None if the token is not valid."""


def text_in(header: str, login: tuple[str, str] | None) -> str:
    """Return the token in an Authorization header, empty if there is none; ``login`` is its name and password."""
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() == SCHEME:
        return credentials.strip()
    return login[1] if login and token_text.identifier(login[1]) else ""


class Tokens:
    """The check of tokens of the users of a file."""

    def __init__(self, runtime: interface.Runtime, known: users.Users, prove: Prove) -> None:
        self._known = known
        self._prove = prove
        self._key = runtime.random.token(32)
        self._proven: dict[str, bytes] = {}

    async def check(self, text: str, *, peer: str, name: str | None = None) -> users.User | None:
        """Return the user of a token, limited to what the token allows; None, after a delay, if it is not valid.

        With a ``name``, it must be that user's. Raises RefusedError 429, and the errors of the master.
        """
        identifier = token_text.identifier(text)
        if identifier is None:
            return None
        digest = hmac.digest(self._key, text.encode(), "sha256")
        if hmac.compare_digest(self._proven.get(identifier, b""), digest):
            user = await self.user(text)
            if user:
                return user if name in (None, user.name) else None
            self._proven.pop(identifier, None)
        claimed = next((user.name for user in self._known.all() if token_text.is_of(identifier, user.name)), "")

        async def verify() -> bool:
            return claimed != "" and await self.user(text) is not None

        if not await self._known.attempt(claimed, digest, verify, peer=peer):
            return None
        if len(self._proven) >= PROVEN:
            self._proven.clear()
        self._proven[identifier] = digest
        user = await self.user(text)
        return user if user and name in (None, user.name) else None

    async def user(self, text: str) -> users.User | None:
        """Return the user of a token as it is now, without a limit of attempts; None if the token is not valid."""
        identifier = token_text.identifier(text)
        proof = await self._prove(identifier, token_text.secret_hash(text)) if identifier else None
        user = self._known.get(proof.user) if proof else None
        if proof is None or user is None:
            return None
        return dataclasses.replace(user, token=users.Token(proof.uuid, proof.name, proof.extent))
