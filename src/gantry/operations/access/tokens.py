"""Units that create and revoke API tokens (``model.access.Token``).

Whoever submits them has generated the secret: the master sees its hash alone. A token counts from the moment at which
the transaction is durable, and a revoked one does not count any more from then on, also for jobs that wait.
"""

from gantry import errors
from gantry.model import access, opcodes, token_text
from gantry.operations import base, config_part
from gantry.operations.access import scopes
from gantry.state.objects import snapshot as states

LIMIT = 10_000
"""The maximum number of tokens: a checkpoint writes all of them."""
USER_LIMIT = 100
"""The maximum number of tokens of a user, those that have ended included."""
DAY = 86_400.0
DEFAULT_DAYS = 90
MAX_DAYS = 366
"""How long a token is valid: by default, and at most unless it has no end."""


class TokenAdd(config_part.Change[opcodes.TokenAdd]):
    """Creates a token."""

    OPCODE = opcodes.TokenAdd
    PART = "tokens"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the token, in place of an ended one with its name; the result is its end, None if it has none."""
        del facts
        op, inputs = self.op, self.environment.inputs
        if not op.user.isprintable():
            raise errors.InvalidError(f"{op.user!r} has a character that cannot be printed")
        if not token_text.is_of(op.id, op.user):
            raise errors.InvalidError(f"the id {op.id} is not that of a token of user {op.user}")
        if bool(op.roles) != (op.extent == "roles"):
            raise errors.InvalidError(
                f"a token that allows {op.extent} has {len(op.roles)} roles",
                hint="name at least one role if it is to allow roles, otherwise none",
            )
        tokens = tokens_of(snapshot, op.user)
        previous = next((token for token in tokens if token.label == op.name), None)
        if previous and not previous.has_ended(inputs.now):
            raise errors.ExistsError(
                f"user {op.user} has an API token {op.name} already", hint="choose another name, or revoke that token"
            )
        if previous is None:
            _check_room(snapshot, op.user)
        token = access.Token(
            uuid=inputs.uuid(),
            name=access.token_name(op.user, op.name),
            id=op.id,
            secret_hash=op.secret_hash,
            extent=access.Extent(op.extent),
            roles=tuple(dict.fromkeys(_role(snapshot, each) for each in op.roles)),
            end=_end(op.until, inputs.now),
            ctime=inputs.now,
            mtime=inputs.now,
        )
        return base.Plan(
            lines=[f"create API token {op.name} of user {op.user}, which allows {scopes.allows(snapshot, token)}"],
            changes=[*([states.Delete("apitokens", previous.uuid)] if previous else []), states.Put(token)],
            result=lambda: token.end,
        )


class TokenRevoke(config_part.Change[opcodes.TokenRevoke]):
    """Revokes a token, or all of a user."""

    OPCODE = opcodes.TokenRevoke
    PART = "tokens"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the tokens; NotFoundError if there is none."""
        del facts
        op = self.op
        tokens = [token for token in tokens_of(snapshot, op.user) if op.name in (None, token.label)]
        if not tokens:
            raise errors.NotFoundError(
                f"user {op.user} has no API token{f' {op.name}' if op.name else ''}",
                hint=f"gantry token list --user {op.user} shows the tokens of {op.user}",
            )
        return base.Plan(
            lines=[f"revoke API token {token.label} of user {op.user}" for token in tokens],
            changes=[states.Delete("apitokens", token.uuid) for token in tokens],
        )


def tokens_of(snapshot: states.Snapshot, user: str) -> list[access.Token]:
    """Return the tokens of a user by name."""
    tokens = (snapshot.apitokens[uuid] for uuid in snapshot.tokens_of.get(user) or ())
    return sorted(tokens, key=lambda token: token.name)


def _role(snapshot: states.Snapshot, requested: opcodes.TokenRole) -> access.RoleOn:
    role = access.Role(requested.role)
    scope, uuid = scopes.parse(snapshot, requested.on)
    scopes.check_meaning(role, scope)
    return access.RoleOn(role=role, scope=scope, object=uuid)


def _end(until: float | str | None, now: float) -> float | None:
    if until is None:
        return now + DEFAULT_DAYS * DAY
    if isinstance(until, str):
        return None
    # Written so that no number passes that is not comparable.
    if not until > now:
        raise errors.InvalidError("the token would end before it begins", hint="name a time in the future")
    if not until <= now + MAX_DAYS * DAY:
        raise errors.InvalidError(
            f"the token would be valid for more than {MAX_DAYS} days, the maximum",
            hint="name an earlier end, or never for a token without an end",
        )
    return until


def _check_room(snapshot: states.Snapshot, user: str) -> None:
    if len(snapshot.tokens_of.get(user) or ()) >= USER_LIMIT:
        raise errors.NoRoomError(
            f"user {user} has {USER_LIMIT} API tokens, the maximum", hint="revoke tokens that have ended or are unused"
        )
    if len(snapshot.apitokens) >= LIMIT:
        raise errors.NoRoomError(
            f"the cluster has {LIMIT} API tokens, the maximum", hint="revoke tokens that have ended or are unused"
        )
