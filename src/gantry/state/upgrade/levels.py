"""Parameters of nodes and disks, and the policy of instances, of an old cluster and its node groups; pure.

Ganeti stores all values of the cluster, even those that equal its defaults; only the others are kept here.
"""

from collections.abc import Mapping

import msgspec

from gantry import errors
from gantry.model import base, cluster, parameters, policy
from gantry.state.upgrade import document, findings

PARTS = ("minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio")


def differing(
    old_values: document.Parameters | None,
    known: Mapping[str, parameters.Parameter],
    report: findings.Findings,
    *,
    what: str,
) -> base.Parameters:
    """Return what of an object's parameters exists here and is not the default."""
    carried = report.carried(old_values, known, what=what)
    return {name: value for name, value in carried.items() if value != known[name].default}


def disks(
    old_values: Mapping[str, document.Parameters] | None, report: findings.Findings, *, what: str
) -> dict[str, base.Parameters]:
    """Return disk parameters by template; of templates that do not exist here the others are noted."""
    by_template = old_values or {}
    if strange := sorted(name for name in by_template if name not in parameters.DISK and by_template[name]):
        report.note(f"{what}: left out, disk templates that do not exist here: {', '.join(strange)}")
    carried = {
        template: differing(by_template[template], known, report, what=f"{what}, {template} disks")
        for template, known in parameters.DISK.items()
        if template in by_template
    }
    return {template: values for template, values in carried.items() if values}


def systems(
    old_values: Mapping[str, Mapping[str, document.Parameters]] | None, report: findings.Findings
) -> dict[str, dict[str, base.Parameters]]:
    """Return hypervisor parameters by operating system and hypervisor; all that is set there is kept."""
    carried = {
        system: {
            name: report.carried(values, parameters.HYPERVISORS[name], what=f"{name} instances with OS {system}")
            for name, values in by_name.items()
            if name in parameters.HYPERVISORS
        }
        for system, by_name in (old_values or {}).items()
    }
    kept = {system: {name: values for name, values in of.items() if values} for system, of in carried.items()}
    return {system: of for system, of in kept.items() if of}


def limits(old_values: document.Parameters | None, report: findings.Findings, *, what: str) -> cluster.Policy:
    """Return an instance policy; kinds of disks that do not exist here are left out of it."""
    plain = {name: value for name in PARTS if (value := (old_values or {}).get(name))}
    templates = plain.get("disk-templates")
    if isinstance(templates, list):
        plain["disk-templates"] = [name for name in templates if name in parameters.DISK]
    try:
        carried = policy.changed(cluster.NO_POLICY, msgspec.convert(plain, policy.Change))
    except (msgspec.ValidationError, errors.InvalidError) as error:
        report.refuse(f"the policy of instances is not valid, {error}", what)
        return cluster.NO_POLICY
    same = [
        name for name in ("std", "vcpu_ratio", "spindle_ratio") if getattr(carried, name) == getattr(policy.OPEN, name)
    ]
    return msgspec.structs.replace(carried, **{name: getattr(cluster.NO_POLICY, name) for name in same})
