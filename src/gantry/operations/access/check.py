"""The check of a request against the rules, for the job queue and its processor."""

import shlex
from collections.abc import Sequence

from gantry import errors
from gantry.model import access, instance, opcodes
from gantry.operations.access import needs, rights
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states


def check(snapshot: states.Snapshot, subject: access.Subject | None, op: opcodes.Opcode) -> None:
    """Raise ForbiddenError for the first need of an opcode that no rule meets; None is the cluster itself.

    Raises NotFoundError for an unknown name, as reading is not restricted.
    """
    if subject is None or subject.is_admin:
        return
    find = access_rules.finder(snapshot)
    for need in needs.of(snapshot, op):
        if not access.decide(find, subject, need).is_allowed:
            raise refusal(subject, need)


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


def check_operation(snapshot: states.Snapshot, subject: access.Subject, vm: instance.Instance) -> None:
    """Raise ForbiddenError if a subject may not do with an instance what starting it needs, as using its console."""
    need = rights.on_instance(snapshot, vm, access.Right.OPERATE)
    if not (subject.is_admin or access.decide(access_rules.finder(snapshot), subject, need).is_allowed):
        raise refusal(subject, need)


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
