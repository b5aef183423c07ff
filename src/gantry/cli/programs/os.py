"""``gnt-os``: the operating systems that instances can be created with."""

from collections.abc import Sequence

from gantry.cli import client
from gantry.cli.commands import settings
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents

ABOUT = "Shows and configures the operating systems that instances can be created with."


def _diagnose(call: command.Call, fields: Sequence[str]) -> list[dict[str, object]]:
    """Return the operating systems as the nodes have them."""
    op = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields, "names": call.arguments}
    rows = client.expect(submit.ask(call, op), list)
    return [dict(zip(fields, row, strict=True)) for row in rows]


def show_list(call: command.Call) -> int:
    """List the names that ``gnt-instance add -o`` takes: valid systems with their variants, but those hidden."""
    names = [str(name) for one in _diagnose(call, ["offered"]) for name in client.expect(one["offered"], list)]
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
    found = _diagnose(call, ["name", *INFO_FIELDS])
    print(
        documents.document({str(one["name"]): {word: one[key] for key, word in INFO_FIELDS.items()} for one in found})
    )
    return 0


def diagnose(call: command.Call) -> int:
    """Show what each node has of each operating system; the exit code is 1 when one is not valid."""
    found = _diagnose(call, ["name", "valid", "node_status"])
    document = {str(one["name"]): {"valid": one["valid"], **_on_nodes(one["node_status"])} for one in found}
    print(documents.document(document))
    return 0 if all(one["valid"] for one in found) else 1


def _on_nodes(found: object) -> dict[str, object]:
    """Say for each node where it has the system and what is wrong with it there."""
    nodes = client.expect(found, dict)
    return {
        f"node {name}": [f"{path}: {'valid' if valid else problem}" for path, valid, problem, *_ in places]
        for name, places in nodes.items()
    }


SOME = (command.Argument("OS", least=0, most=None, completes="os"),)
COMMANDS = (
    command.Command(
        "list",
        show_list,
        "List operating systems with their variants",
        options=(*command.FIELDS_QUERY, *command.PRIORITY),
    ),
    command.Command("info", info, "Show operating systems in full", SOME, command.PRIORITY),
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
                "Hypervisor parameters of instances with it, as in kvm:disk_type=ide",
                "HV:PARAMS",
                dest="hypervisor",
                many=True,
                parse=syntax.hypervisor,
            ),
            command.Option(
                ("--hidden",), "Whether gnt-os list leaves it, or one variant, out", "YES|NO", choices=("yes", "no")
            ),
            command.Option(
                ("--blacklisted",), "Whether it is not installed, and not listed", "YES|NO", choices=("yes", "no")
            ),
            *command.JOB,
        ),
    ),
    command.Command("diagnose", diagnose, "Show what each node has of them", options=command.PRIORITY),
)
