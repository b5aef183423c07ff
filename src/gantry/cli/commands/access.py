"""``gnt-cluster access``: the rules that say who may change what.

A rule is ``WHO ROLE ON``. ``explain`` also counts the rules of the system groups of a user that this machine has.
"""

import contextlib
import grp
import os
import pwd

from gantry.cli import client
from gantry.cli.framework import command, query, submit

LISTING = query.Listing("access", ("who", "role", "on"), name="who")

WHO = command.Argument("WHO", field="who")
ON = "cluster|group:NAME|tag:TAG|project:ID|instance:NAME|network:NAME"

ADD_TEXT = """
    WHO is user:NAME, a user of the remote API's users file or a system user of the master, or group:NAME, a system
    group. Users and groups of an OpenID provider are user:oidc:NAME and group:oidc:NAME. ROLE is viewer, operator,
    admin or network-admin. ON is cluster, or group:NAME of a node group, tag:TAG, instance:NAME, network:NAME, or
    project:ID, with the id that a project has in the Neutron API: its networks, and instances with ports of it.

    A viewer changes nothing, and sees the objects on a cluster with the setting --reading rules. An operator starts,
    stops and reboots instances, and connects NICs to networks. An admin changes and removes instances, too, and places
    them in node groups; on the cluster an admin may do everything. A network-admin changes networks. A rule follows its
    object to a new name, and ends with the object.
"""
EXPLAIN_TEXT = """
    Root, the group gantry-admin, and users of the remote API with the option write may do everything, and need no rule.
"""


def add(call: command.Call) -> int:
    """Add a rule; for a tag or project, print how many objects have it now."""

    def report(result: object) -> None:
        if isinstance(result, list):
            counted = [
                f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in zip(result, ("instance", "network"), strict=True)
            ]
            verb = "has" if call.arguments[2].startswith("project:") else "is on"
            print(f"{call.arguments[2]} {verb} {' and '.join(counted)} now")

    return submit.carry_out(call, call.opcode("OP_ACCESS_ADD"), report=report)


def remove(call: command.Call) -> int:
    """Remove rules of a user or group: all, or those with a role and an object."""
    return submit.carry_out(call, call.opcode("OP_ACCESS_REMOVE"))


def explain(call: command.Call) -> int:
    """Print which rule gives each right on an object."""
    who, on = call.arguments
    answer = client.expect(call.client.call("ExplainAccess", [who, *_groups_of(who)], on), list)
    heads = [
        client.Field(title.lower(), title, kind, "")
        for title, kind in (("Right", "text"), ("To", "text"), ("Allowed", "bool"), ("Rule", "text"))
    ]
    rows: list[client.Row] = [
        [(0, value) for value in (each["right"], each["what"], each["allowed"], _rule(each["rule"]))] for each in answer
    ]
    return query.print_table(call, client.Table(heads, rows))


def _rule(rule: object) -> str:
    return " ".join(str(rule[key]) for key in ("who", "role", "on")) if isinstance(rule, dict) else "-"


def _groups_of(who: str) -> list[str]:
    """Return the system groups of a user of this machine, as rules name them."""
    kind, _, name = who.partition(":")
    if kind != "user":
        return []
    names: list[str] = []
    with contextlib.suppress(KeyError):
        for gid in os.getgrouplist(name, pwd.getpwnam(name).pw_gid):
            with contextlib.suppress(KeyError):
                names.append(f"group:{grp.getgrgid(gid).gr_name}")
    return sorted(names)


_LIST, _LIST_FIELDS = query.commands(LISTING, "access rules", arguments=(command.Argument("WHO", 0, None),))

COMMANDS = (
    command.Command(
        "access add",
        add,
        "Give a user or a group a role",
        (WHO, command.Argument("ROLE", field="role"), command.Argument("ON", field="on")),
        command.JOB,
        text=ADD_TEXT,
    ),
    command.Command(
        "access remove",
        remove,
        "Remove access rules of a user or a group",
        (WHO, command.Argument("ROLE", minimum=0, field="role"), command.Argument("ON", minimum=0, field="on")),
        command.JOB,
    ),
    _LIST._replace(name="access list"),
    _LIST_FIELDS._replace(name="access list-fields"),
    command.Command(
        "access explain",
        explain,
        "Show which access rule gives which right",
        (command.Argument("WHO"), command.Argument("ON")),
        command.FIELDS_QUERY,
        text=EXPLAIN_TEXT,
    ),
)
