"""Checks before an operating system's scripts run: the definition, its variant, its parameters.

Shared by the units that install. Refuses everything here, before anything is changed, and suggests the nearest name.
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
    """Run a script of an instance's OS on its node; canceling the job kills the script."""
    nodes = environment.nodes
    cancel = calls.OsCancel(instance=whole.uuid)
    return await cancellable.run(environment, nodes.call(target, call), lambda: nodes.call(target, cancel))


def script(
    environment: base.Environment, target: targets.Target, call: calls.Call[Result], *, whole: calls.Instance
) -> base.Procedure:
    """Return the action that runs a script of an instance's OS on its node."""

    async def execute() -> None:
        await run(environment, target, call, whole=whole)

    return base.Procedure("is killed when the job is canceled; its parameters may be secret", execute)


async def check(
    nodes: base.Nodes,
    target: targets.Target,
    whole: calls.Instance,
    *,
    the_cluster: cluster.Cluster,
    force_variant: bool = False,
) -> calls.OsScript:
    """Return the definition of an instance's OS on a node; raises InvalidError, NotFoundError if it is unusable.

    Raises WrongStateError if the OS is blacklisted. The OS's verify script, if any, checks the parameters.
    """
    name, _, variant = whole.os.partition("+")
    if forbidden := {name, whole.os} & {*the_cluster.blacklisted_os}:
        raise errors.WrongStateError(
            f"OS {', '.join(sorted(forbidden))} is blacklisted and cannot be installed",
            hint=f"gnt-os modify --blacklisted no {min(forbidden)} allows it",
        )
    definition = await nodes.call(target, calls.OsValidate(name=name))
    if definition.problem:
        raise errors.InvalidError(f"OS {name} cannot be installed: {definition.problem}")
    if definition.variants and not variant:
        known = ", ".join(definition.variants)
        raise errors.InvalidError(f"OS {name} needs a variant", hint=f"use {name}+VARIANT; variants: {known}")
    if variant and variant not in definition.variants and not force_variant:
        close = difflib.get_close_matches(variant, definition.variants, n=1)
        known = ", ".join(definition.variants) or "none"
        raise errors.InvalidError(
            f"OS {name} has no variant {variant}",
            hint=f"did you mean {close[0]}?" if close else f"variants: {known}",
        )
    if definition.hypervisors and whole.hypervisor not in definition.hypervisors:
        raise errors.InvalidError(
            f"OS {name} does not support hypervisor {whole.hypervisor}",
            hint=f"supported hypervisors: {', '.join(definition.hypervisors)}",
        )
    _check_parameters(definition, whole)
    await nodes.call(target, calls.OsVerify(instance=whole))
    return definition


async def check_parameters(
    nodes: base.Nodes, target: targets.Target, whole: calls.Instance, changed_names: Collection[str]
) -> None:
    """Refuse changed parameters that the instance's OS does not list or whose values it does not accept.

    If the OS no longer exists on the node, all parameters are accepted, because they cannot be checked.
    """
    if not (changed_names and whole.os):
        return
    try:
        definition = await nodes.call(target, calls.OsValidate(name=whole.os.partition("+")[0]))
    except errors.NotFoundError:
        return
    changed_values = {name: value for name, value in whole.osparams.items() if name in changed_names}
    _check_parameters(definition, structs.replace(whole, osparams=changed_values))
    await nodes.call(target, calls.OsVerify(instance=whole))


def _check_parameters(definition: calls.OsScript, whole: calls.Instance) -> None:
    """Refuse parameters that the definition does not list; definitions before version 20 accept any."""
    if max(definition.api_versions, default=0) < 20:
        return
    known = {name.lower() for name, _ in definition.parameters}
    unlisted = sorted(name for name in whole.osparams if name.lower() not in known)
    if unlisted:
        raise parameters.unknown(f"parameter of OS {definition.name}:", unlisted, sorted(known))


def with_secrets(whole: calls.Instance, secrets: entities.Parameters) -> calls.Instance:
    """Return the instance with its secret parameters, for the scripts of its OS; no other call to a node has them."""
    return structs.replace(whole, osparams=whole.osparams | secrets)
