"""What is not for everybody to read: parameters of operating systems, the password of a database; pure.

*Private* ones are kept in the configuration, and shown to nobody: queries, exports and jobs have ``BLANK`` for their
values. *Secret* ones are for one job alone: the queue keeps them in memory, what is stored of the opcode has ``BLANK``
(``parted``), and the processor puts them back when the opcode runs (``joined``). Scripts get all of them alike. The URL
of the addresses' database is kept like private ones, and shown without its password.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.model import base, cluster, instance, opcodes

BLANK = "(blanked)"
"""What stands in the place of a value."""

SECRET = "osparams_secret"
PRIVATE = ("osparams_private", SECRET)
PRIVATE_CLUSTER = "osparams_private_cluster"
DATABASE = "ipam_database"

_LOGIN = re.compile(r"://([^:/@]*):.*@")
_PASSWORD = re.compile(r"(pass\w*=)[^&]*", re.IGNORECASE)

Op = TypeVar("Op", bound=opcodes.Opcode)


def blanked(values: Mapping[str, object]) -> base.Parameters:
    """Return parameters without their values."""
    return dict.fromkeys(values, BLANK)


def database(url: str) -> str:
    """Return the URL of a database without its password."""
    return _PASSWORD.sub(rf"\1{BLANK}", _LOGIN.sub(r"://\1@", url))


def _given(op: opcodes.Opcode, field: str) -> base.Parameters:
    found: base.Parameters = getattr(op, field, None) or {}
    return found


def shown(op: Op) -> Op:
    """Return an opcode as it may be shown."""
    fields: dict[str, object] = {name: blanked(given) for name in PRIVATE if (given := _given(op, name))}
    by_system: Mapping[str, base.Parameters] | None = getattr(op, PRIVATE_CLUSTER, None)
    if by_system:
        fields[PRIVATE_CLUSTER] = {system: blanked(given) for system, given in by_system.items()}
    if url := getattr(op, DATABASE, None):
        fields[DATABASE] = database(url)
    return structs.replace(op, **fields) if fields else op


def parted(op: Op) -> tuple[Op, base.Parameters]:
    """Return an opcode as it may be stored, and its secrets."""
    given = _given(op, SECRET)
    return (structs.replace(op, **{SECRET: blanked(given)}), given) if given else (op, {})


def joined(op: Op, secrets: base.Parameters | None) -> Op:
    """Return an opcode with its secrets again; ExecutionError when it had some that nobody knows any more."""
    given = _given(op, SECRET)
    if not given:
        return op
    if not secrets:
        raise errors.ExecutionError(
            f"its secret parameters ({', '.join(sorted(given))}) were lost when the master daemon ended",
            hint="submit it again",
        )
    return structs.replace(op, **{SECRET: secrets})


def check_apart(**given: Mapping[str, object]) -> None:
    """Refuse a parameter that is given in two ways; raises InvalidError."""
    seen: dict[str, str] = {}
    for way, values in given.items():
        for name in values:
            if name in seen:
                raise errors.InvalidError(
                    f"parameter {name} of the operating system is {seen[name]} and {way} at once",
                    hint=f"take the one back first: {name}=default",
                )
            seen[name] = way


def _levels(system: str, by_system: Mapping[str, base.Parameters]) -> base.Parameters:
    """Return what is set for an operating system; what is set for its variant comes last."""
    names = dict.fromkeys((system.partition("+")[0], system))
    return {name: value for one in names for name, value in by_system.get(one, {}).items()}


def filled(owner: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return the parameters of an instance's operating system as its scripts get them."""
    defaults = _levels(vm.os, owner.osparams) | _levels(vm.os, owner.osparams_private_cluster)
    return defaults | vm.osparams | vm.osparams_private


def filled_shown(owner: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return the same as it may be shown."""
    defaults = _levels(vm.os, owner.osparams) | blanked(_levels(vm.os, owner.osparams_private_cluster))
    return defaults | vm.osparams | blanked(vm.osparams_private)


def own_shown(vm: instance.Instance) -> base.Parameters:
    """Return what an instance sets itself, as it may be shown."""
    return vm.osparams | blanked(vm.osparams_private)
