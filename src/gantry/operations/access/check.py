"""The check of a request against the rules, for the job queue and its processor."""

import shlex
from collections.abc import Sequence

from gantry import errors
from gantry.model import access, instance, opcodes
from gantry.operations.access import needs, rights, scopes
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states

ADMINISTRATOR = "administrator"
"""The right of a subject that may do everything."""


def check(snapshot: states.Snapshot, subject: access.Subject | None, op: opcodes.Opcode) -> str:
    """Raise ForbiddenError for the first need of an opcode that no rule meets; None is the cluster itself.

    Returns by which right it is allowed, for the audit: the rules that decide, such as ``operator on instance web1``,
    or ``ADMINISTRATOR``; empty if the opcode needs none. Raises NotFoundError for an unknown name, as reading is not
    restricted.
    """
    if subject is None:
        return ""
    if subject.is_admin:
        return ADMINISTRATOR
    find = access_rules.finder(snapshot)
    return ", ".join(dict.fromkeys(_right(snapshot, find, subject, need) for need in needs.of(snapshot, op)))


def _right(snapshot: states.Snapshot, find: access.Find, subject: access.Subject, need: access.Need) -> str:
    """Return by which right a need is met; raises ForbiddenError."""
    decision = access.decide(find, subject, need)
    if not decision.is_allowed:
        raise refusal(subject, need)
    rule = decision.rule
    return f"{rule.role} on {scopes.title(snapshot, rule.scope, rule.object)}" if rule else ADMINISTRATOR


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
    """Raise ForbiddenError if a subject may not do with an instance what starting it needs, as using its console.

    Returns by which right, as ``check`` does.
    """
    need = rights.on_instance(snapshot, vm, access.Right.OPERATE)
    return _right(snapshot, access_rules.finder(snapshot), subject, need)


def check_administrator(snapshot: states.Snapshot, subject: access.Subject, what: str) -> str:
    """Raise ForbiddenError if a subject may not do ``what`` as an administrator of the cluster.

    Returns by which right, as ``check`` does.
    """
    return _right(snapshot, access_rules.finder(snapshot), subject, rights.administer(what))


def may_administer(snapshot: states.Snapshot, subject: access.Subject) -> bool:
    """Return whether a subject may do everything that the cluster's administrators may."""
    return access.decide(access_rules.finder(snapshot), subject, rights.administer("administer the cluster")).is_allowed


def refusal(subject: access.Subject, need: access.Need) -> errors.ForbiddenError:
    """Return the error for a need that no rule meets; its hint is a command that a shell reads as one line."""
    command = f"gnt-cluster access add {shlex.quote(f'user:{subject.user}')} {need.example}"
    hint = (
        "only an administrator of the cluster may do that"
        if need.right is access.Right.ADMINISTER
        else f"an administrator can allow it: {command}"
    )
    return errors.ForbiddenError(
        f"user {subject.user} may not {need.what}: no access rule gives the right to {need.right}", hint=hint
    )
