"""Refuses to start a guest whose parameters are outside of the cluster's allow-lists on this node.

The master compares what is set; a node resolves symbolic links, which only the node knows, and compares both paths: a
file that is allowed must not lead to one that is not.
"""

from gantry import errors, security
from gantry.rpc import calls
from gantry.runtime import interface


def check(disk: interface.Disk, instance: calls.Instance) -> None:
    """Raise ForbiddenError for the first parameter whose value, or the file that it leads to, is in no list."""
    for parameter, each in instance.allowed.items():
        value = str(instance.hvparams.get(parameter, ""))
        leads_to = disk.resolve(value) if value.startswith("/") else value
        for used in (value, leads_to):
            if not security.permits(each.entries, used, each.form):
                also = f", which leads to {leads_to}," if used != value else ""
                contents = ", ".join(each.entries) or "which is empty"
                raise errors.ForbiddenError(
                    f"parameter {parameter} of instance {instance.name}: {value}{also} is not in the allow-list "
                    f"{each.list} ({contents})",
                    hint=f"root can allow it on the master: gnt-cluster modify --allow '{each.list}={used}'",
                )
