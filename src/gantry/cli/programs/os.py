"""``gnt-os``: the operating systems that instances can be created with."""

from collections.abc import Sequence

from gantry.cli import client
from gantry.cli.commands import settings
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents

ABOUT = "Shows and configures the operating systems that instances can be created with."


def _diagnose(call: command.Call, fields: Sequence[str]) -> list[dict[str, object]]:
    """Return the fields of the operating systems on the nodes."""
    op = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields, "names": call.arguments}
    rows = client.expect(submit.query(call, op), list)
    return [dict(zip(fields, row, strict=True)) for row in rows]


def show_list(call: command.Call) -> int:
    """List the values of ``gnt-instance add -o``: valid operating systems with their variants, except hidden ones."""
    records = _diagnose(call, ["offered"])
    names = [str(name) for record in records for name in client.expect(record["offered"], list)]
    table = client.Table([client.Field("name", "Name", "text", "")], [[(0, name)] for name in names])
    return query.print_table(call, table)


INFO_FIELDS = {
    "valid": "valid",
    "variants": "variants",
    "parameters": "parameters",
    "api_versions": "api versions",
    "hypervisors": "hypervisors",
    "hidden": "hidden",
    "blacklisted": "blacklisted",
    "osparams": "default parameters",
    "os_hvp": "default hypervisor parameters",
}


def info(call: command.Call) -> int:
    """Show operating systems in full."""
    records = _diagnose(call, ["name", *INFO_FIELDS])
    document = {str(record["name"]): {title: record[key] for key, title in INFO_FIELDS.items()} for record in records}
    print(documents.document(document))
    return 0


def diagnose(call: command.Call) -> int:
    """Show the operating systems on each node; the exit code is 1 if an operating system is not valid."""
    records = _diagnose(call, ["name", "valid", "node_status"])
    document = {
        str(record["name"]): {"valid": record["valid"], **_on_nodes(record["node_status"])} for record in records
    }
    print(documents.document(document))
    return 0 if all(record["valid"] for record in records) else 1


def _on_nodes(node_status: object) -> dict[str, object]:
    """Return for each node the paths of the operating system, and whether each is valid or its problem."""
    nodes = client.expect(node_status, dict)
    return {
        f"node {name}": [
            f"{path}: {'valid' if valid else problem}" if path else problem for path, valid, problem, *_ in entries
        ]
        for name, entries in nodes.items()
    }


SYSTEMS = (command.Argument("OS", minimum=0, maximum=None, completes="os"),)
COMMANDS = (
    command.Command(
        "list",
        show_list,
        "List operating systems with their variants",
        options=(*command.FIELDS_QUERY, *command.PRIORITY),
    ),
    command.Command("info", info, "Show operating systems in full", SYSTEMS, command.PRIORITY, aliases=("show",)),
    command.Command(
        "modify",
        settings.modify_system,
        "Change the defaults of an operating system's parameters",
        (command.Argument("OS", completes="os"),),
        (
            command.OS_PARAMETERS,
            command.OS_PRIVATE,
            command.Option(
                command.HYPERVISOR_NAMES,
                "Set hypervisor parameters of instances with this operating system, as in kvm:disk_type=ide",
                "HV:PARAMS",
                dest="hypervisor",
                repeatable=True,
                parse=syntax.hypervisor,
            ),
            command.Option(
                ("--hidden",),
                "Omit the operating system, or one of its variants, from gnt-os list",
                "YES|NO",
                choices=("yes", "no"),
            ),
            command.Option(
                ("--blacklisted",),
                "Refuse to install the operating system, and do not list it",
                "YES|NO",
                choices=("yes", "no"),
            ),
            *command.JOB,
        ),
    ),
    command.Command("diagnose", diagnose, "Show the operating systems on each node", options=command.PRIORITY),
)
