"""What has to fit before an operating system's scripts run: the definition, its variant, its parameters.

Shared by the units that install. Everything is refused here, before anything is changed, with the nearest name.
"""

import difflib
from collections.abc import Collection
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, parameters
from gantry.operations import base, cancellable
from gantry.rpc import calls, targets

Result = TypeVar("Result")


async def run(
    environment: base.Environment, target: targets.Target, call: calls.Call[Result], *, whole: calls.Instance
) -> Result:
    """Have a script of an instance's OS run on its node; it is killed when the job is canceled meanwhile."""
    nodes = environment.nodes
    cancel = calls.OsCancel(instance=whole.uuid)
    return await cancellable.run(environment, nodes.call(target, call), lambda: nodes.call(target, cancel))


def script(
    environment: base.Environment, target: targets.Target, call: calls.Call[Result], *, whole: calls.Instance
) -> base.Procedure:
    """Return the action that has a script of an instance's OS run on its node."""

    async def execute() -> None:
        await run(environment, target, call, whole=whole)

    return base.Procedure("is killed when the job is canceled; its parameters may be secret", execute)


async def check(
    nodes: base.Nodes,
    target: targets.Target,
    whole: calls.Instance,
    *,
    owner: cluster.Cluster,
    force_variant: bool = False,
) -> calls.OsScript:
    """Return the definition of an instance's OS on a node; InvalidError, NotFoundError when it cannot be used.

    WrongStateError when the cluster does not want it installed. Its verify script, where there is one, looks at the
    parameters.
    """
    name, _, variant = whole.os.partition("+")
    if forbidden := {name, whole.os} & {*owner.blacklisted_os}:
        raise errors.WrongStateError(
            f"OS {', '.join(sorted(forbidden))} is blacklisted, so it is not installed",
            hint=f"gnt-os modify --blacklisted no {min(forbidden)} allows it again",
        )
    definition = await nodes.call(target, calls.OsValidate(name=name))
    if definition.problem:
        raise errors.InvalidError(f"OS {name} cannot be installed: {definition.problem}")
    if definition.variants and not variant:
        known = ", ".join(definition.variants)
        raise errors.InvalidError(f"OS {name} needs a variant", hint=f"write {name}+VARIANT; it has {known}")
    if variant and variant not in definition.variants and not force_variant:
        close = difflib.get_close_matches(variant, definition.variants, n=1)
        known = ", ".join(definition.variants) or "none"
        raise errors.InvalidError(
            f"OS {name} has no variant {variant}", hint=f"did you mean {close[0]}?" if close else f"it has {known}"
        )
    if definition.hypervisors and whole.hypervisor not in definition.hypervisors:
        raise errors.InvalidError(
            f"OS {name} does not support hypervisor {whole.hypervisor}",
            hint=f"it supports {', '.join(definition.hypervisors)}",
        )
    _check_parameters(definition, whole)
    await nodes.call(target, calls.OsVerify(instance=whole))
    return definition


async def check_parameters(
    nodes: base.Nodes, target: targets.Target, whole: calls.Instance, given: Collection[str]
) -> None:
    """Refuse parameters that are ``given`` to an instance and that its OS does not list, or does not take.

    One whose OS is not on its node any more may have any: nobody can tell.
    """
    if not (given and whole.os):
        return
    try:
        definition = await nodes.call(target, calls.OsValidate(name=whole.os.partition("+")[0]))
    except errors.NotFoundError:
        return
    wanted = {name: value for name, value in whole.osparams.items() if name in given}
    _check_parameters(definition, structs.replace(whole, osparams=wanted))
    await nodes.call(target, calls.OsVerify(instance=whole))


def _check_parameters(definition: calls.OsScript, whole: calls.Instance) -> None:
    """Refuse parameters that the definition does not list; those before version 20 list none and take any."""
    if max(definition.api_versions, default=0) < 20:
        return
    known = {name.lower() for name, _ in definition.parameters}
    wrong = sorted(name for name in whole.osparams if name.lower() not in known)
    if wrong:
        raise parameters.unknown(f"parameter of OS {definition.name}:", wrong, sorted(known))


def with_secrets(whole: calls.Instance, secrets: entities.Parameters) -> calls.Instance:
    """Return an instance as the scripts of its OS get it; no other call to a node has its secrets."""
    return structs.replace(whole, osparams=whole.osparams | secrets)
