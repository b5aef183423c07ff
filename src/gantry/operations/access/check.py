"""The check of a request against the rules, for the job queue and its processor."""

import shlex
from collections.abc import Iterable, Sequence

from gantry import errors
from gantry.model import access, instance, opcodes
from gantry.operations.access import needs, rights, scopes, sight
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states

ADMINISTRATOR = "administrator"
"""The right of a subject that may do everything."""


def check(snapshot: states.Snapshot, subject: access.Subject | None, op: opcodes.Opcode) -> str:
    """Raise ForbiddenError for the first need of an opcode that no rule meets; None is the cluster itself.

    Returns by which right it is allowed, for the audit: the rules that decide, such as ``operator on instance web1``,
    or ``ADMINISTRATOR``; empty if the opcode needs none. Raises NotFoundError for an unknown name. The name of an
    object that the subject does not see (``sight``) is one, and no refusal names such an object.
    """
    if subject is None:
        return ""
    if subject.is_admin and subject.token is None:
        return ADMINISTRATOR
    seen = sight.of(snapshot, subject)
    if seen is None:
        return _title(_right(snapshot, subject, need) for need in needs.of(snapshot, op))
    named = seen.named()
    needed = needs.of(named, op)
    check_reading(named, op)
    used = [_right(snapshot, subject, need) for need in needed if named.may_name(need)]
    try:
        used += [_right(snapshot, subject, need) for need in needed if not named.may_name(need)]
    except errors.ForbiddenError:
        raise errors.ForbiddenError(
            f"user {subject.user} may not submit {op.op_id} about all that it concerns: no access rule gives the right",
            hint="name the objects in the request that it is to concern, or ask an administrator of the cluster",
        ) from None
    return _title(used)


def _title(used: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, used)))


def check_reading(state: states.Snapshot, op: opcodes.Opcode) -> None:
    """Raise ForbiddenError for an opcode that only reads, and says more than a subject with a ``Sight`` may know.

    Its result is that of a job, which reads all objects. ``state`` knows the visible names alone.
    """
    if not needs.only_reads(op):
        return
    if isinstance(op, opcodes.InstanceQueryData) and op.instances:
        for name in op.instances:
            state.instance(name)
        return
    raise errors.ForbiddenError(
        f"{op.op_id} reads more than the access rules let you see",
        hint="name instances that you see, or use the lists: their rows are those that you see",
    )


def _right(snapshot: states.Snapshot, subject: access.Subject, need: access.Need) -> str:
    """Return by which right a need is met, empty for what users do with their own tokens; raises ForbiddenError."""
    decision = _decide(snapshot, subject, need)
    if not decision.is_allowed:
        raise refusal(snapshot, subject, need)
    if rule := decision.rule:
        return f"{rule.role} on {scopes.title(snapshot, rule.scope, rule.object)}"
    is_admin = subject.is_admin or (subject.token is not None and subject.token.is_admin)
    return ADMINISTRATOR if is_admin else ""


def check_job(snapshot: states.Snapshot, subject: access.Subject | None, ops: Sequence[opcodes.Opcode]) -> None:
    """Check the opcodes of a job when it is submitted; each is checked again when it begins (``jobs.processor``).

    So an opcode may name an object that an earlier one of the job will create.
    """
    for index, op in enumerate(ops):
        try:
            check(snapshot, subject, op)
        except errors.NotFoundError:
            if index == 0:
                raise


def check_operation(snapshot: states.Snapshot, subject: access.Subject, vm: instance.Instance) -> str:
    """Check that a subject may operate an instance, which its console needs too; raises ForbiddenError.

    Returns the right that allows it, as ``check`` does.
    """
    need = rights.on_instance(snapshot, vm, access.Right.OPERATE)
    return _right(snapshot, subject, need)


def check_administrator(snapshot: states.Snapshot, subject: access.Subject, what: str) -> str:
    """Raise ForbiddenError if a subject may not do ``what`` as an administrator of the cluster.

    Returns by which right, as ``check`` does.
    """
    return _right(snapshot, subject, rights.administer(what))


def may_administer(snapshot: states.Snapshot, subject: access.Subject) -> bool:
    """Return whether a subject may do everything that the cluster's administrators may."""
    return _decide(snapshot, subject, rights.administer("administer the cluster")).is_allowed


def _decide(snapshot: states.Snapshot, subject: access.Subject, need: access.Need) -> access.Decision:
    token = access_rules.token_of(snapshot, subject)
    return access.decide(access_rules.finder(snapshot), subject, need, token=token)


def refusal(snapshot: states.Snapshot, subject: access.Subject, need: access.Need) -> errors.ForbiddenError:
    """Return the error for a need that no rule or token meets; its hint is a command that a shell reads as one line."""
    if subject.token:
        token = access_rules.token_of(snapshot, subject)
        if token is None:
            return errors.ForbiddenError(
                f"user {subject.user} may not {need.what}: API token {subject.token.name} was revoked",
                hint="use another token",
            )
        if not token.allows(need):
            return _not_allowed(subject.token.name, subject.user, need)
    command = f"gnt-cluster access add {shlex.quote(f'user:{subject.user}')} {need.example}"
    hint = (
        "only an administrator of the cluster may do that"
        if need.right is access.Right.ADMINISTER
        else f"an administrator can allow it: {command}"
    )
    return errors.ForbiddenError(
        f"user {subject.user} may not {need.what}: no access rule gives the right to {need.right}", hint=hint
    )


def _not_allowed(name: str, user: str, need: access.Need) -> errors.ForbiddenError:
    hint = (
        "log in with the password: a token cannot create or revoke tokens"
        if need.owner
        else f"create a token that allows it, with the role {need.example.replace(' ', ' on ')}, or use the password"
    )
    return errors.ForbiddenError(f"API token {name} of user {user} does not allow to {need.what}", hint=hint)
