"""Protection of confidential values: parameters of operating systems, the password of a database; pure.

*Private* parameters are stored in the configuration and never displayed: queries, exports and jobs have ``BLANK`` as
their values. *Secret* parameters are for a single job: the stored opcode has ``BLANK`` (``split_secrets``), the queue
keeps the values in memory, and the processor restores them when the opcode runs (``with_secrets``). Scripts receive
both. The URL of the IPAM database is stored like private parameters, and displayed without its password. Join tokens,
the hashes of invitations' secrets, and the URLs of webhooks are stored and never displayed.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.model import base, cluster, instance, opcodes

BLANK = "(blanked)"
"""The text that replaces a confidential value."""

SECRET = "osparams_secret"
PRIVATE = ("osparams_private", SECRET)
PRIVATE_CLUSTER = "osparams_private_cluster"
DATABASE = "ipam_database"
ADMISSIONS = ("join_token", "secret_hash")
"""What lets a machine into a cluster, or proves the cluster to a machine."""
WEBHOOK_URL = "url"
"""The URL of a webhook: many receivers know their senders by a secret in it."""

_LOGIN = re.compile(r"://([^:/@]*):.*@")
_PASSWORD = re.compile(r"(pass\w*=)[^&]*", re.IGNORECASE)

Op = TypeVar("Op", bound=opcodes.Opcode)


def blanked(values: Mapping[str, object]) -> base.Parameters:
    """Return parameters without their values."""
    return dict.fromkeys(values, BLANK)


def database(url: str) -> str:
    """Return the URL of a database without its password."""
    return _PASSWORD.sub(rf"\1{BLANK}", _LOGIN.sub(r"://\1@", url))


def _parameters(op: opcodes.Opcode, field: str) -> base.Parameters:
    values: base.Parameters = getattr(op, field, None) or {}
    return values


def public(op: Op) -> Op:
    """Return an opcode without its confidential values."""
    fields: dict[str, object] = {name: blanked(values) for name in PRIVATE if (values := _parameters(op, name))}
    by_system: Mapping[str, base.Parameters] | None = getattr(op, PRIVATE_CLUSTER, None)
    if by_system:
        fields[PRIVATE_CLUSTER] = {system: blanked(values) for system, values in by_system.items()}
    fields |= {name: BLANK for name in (*ADMISSIONS, WEBHOOK_URL) if getattr(op, name, "")}
    if url := getattr(op, DATABASE, None):
        fields[DATABASE] = database(url)
    return structs.replace(op, **fields) if fields else op


def split_secrets(op: Op) -> tuple[Op, base.Parameters]:
    """Return an opcode without its secrets, for storage, and the secrets."""
    secrets = _parameters(op, SECRET)
    return (structs.replace(op, **{SECRET: blanked(secrets)}), secrets) if secrets else (op, {})


def with_secrets(op: Op, secrets: base.Parameters | None) -> Op:
    """Return an opcode with its secrets restored; raises ExecutionError if they are lost."""
    blanks = _parameters(op, SECRET)
    if not blanks:
        return op
    if not secrets:
        raise errors.ExecutionError(
            f"the opcode's secret parameters ({', '.join(sorted(blanks))}) were lost when the master daemon ended",
            hint="submit the job again",
        )
    return structs.replace(op, **{SECRET: secrets})


def check_apart(**groups: Mapping[str, object]) -> None:
    """Check that no parameter is in two groups, as in public and private ones; raises InvalidError."""
    group_of: dict[str, str] = {}
    for group, values in groups.items():
        for name in values:
            if name in group_of:
                raise errors.InvalidError(
                    f"parameter {name} of the operating system is both {group_of[name]} and {group}",
                    hint=f"reset one of them first: {name}=default",
                )
            group_of[name] = group


def _levels(system: str, by_system: Mapping[str, base.Parameters]) -> base.Parameters:
    """Return the parameters of an operating system; values of its variant take precedence."""
    systems = dict.fromkeys((system.partition("+")[0], system))
    return {name: value for key in systems for name, value in by_system.get(key, {}).items()}


def filled(the_cluster: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return the filled parameters of an instance's operating system, for its scripts."""
    defaults = _levels(vm.os, the_cluster.osparams) | _levels(vm.os, the_cluster.osparams_private_cluster)
    return defaults | vm.osparams | vm.osparams_private


def filled_public(the_cluster: cluster.Cluster, vm: instance.Instance) -> base.Parameters:
    """Return the filled parameters of an instance's operating system, without confidential values."""
    defaults = _levels(vm.os, the_cluster.osparams) | blanked(_levels(vm.os, the_cluster.osparams_private_cluster))
    return defaults | vm.osparams | blanked(vm.osparams_private)


def own_public(vm: instance.Instance) -> base.Parameters:
    """Return the operating system parameters that an instance sets itself, without confidential values."""
    return vm.osparams | blanked(vm.osparams_private)
