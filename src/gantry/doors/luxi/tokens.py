"""The methods of LUXI about API tokens: the proof of a token for gantry-rapi, and which tokens a user may see.

gantry-rapi asks before each request with a token, and keeps no answer: a token that was revoked or has ended is refused
from the next request on. The secret stays in gantry-rapi, which sends the hash of the token's text.
"""

import hmac
from collections.abc import Sequence

import msgspec

from gantry import errors
from gantry.doors.luxi.services import SUBJECT, Services
from gantry.operations.access import check


class Proof(msgspec.Struct, frozen=True):
    """A token that a text has proven: its UUID, its user and name, and what it allows (``access.Extent``)."""

    uuid: str
    user: str
    name: str
    extent: str


async def prove(services: Services, identifier: str, secret_hash: str) -> Proof | None:
    """Return the token with an id if the hash is right and the token has not ended, otherwise None."""
    state = services.snapshot()
    token = state.apitokens.get(state.token_ids.get(identifier, ""))
    if token is None or token.has_ended(services.now()):
        return None
    if not hmac.compare_digest(token.secret_hash.encode(), secret_hash.encode()):
        return None
    return Proof(token.uuid, token.user, token.label, token.extent.value)


def visible(services: Services, filter_: object) -> object:
    """Return a filter for the tokens that the subject may see: users of the remote API see their own.

    Administrators see all, and so does who reads on the master.
    """
    subject = SUBJECT.get()
    if subject.door != "rapi" or check.may_administer(services.snapshot(), subject):
        return filter_
    if not subject.user:
        raise errors.ForbiddenError("somebody without a name has no API tokens", hint="log in")
    own: Sequence[object] = ["=", "user", subject.user]
    return ["&", own, filter_] if filter_ is not None else own
