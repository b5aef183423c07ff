"""``gnt-os``: the operating systems that instances can be created with."""

from collections.abc import Sequence

from gantry.cli import client, command, output, query, settings, syntax, waiting

ABOUT = "Shows and configures the operating systems that instances can be created with."


def _diagnose(call: command.Call, fields: Sequence[str]) -> list[dict[str, object]]:
    """Return the operating systems as the nodes have them."""
    op = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields, "names": call.arguments}
    rows = client.expect(waiting.ask(call, op), list)
    return [dict(zip(fields, row, strict=True)) for row in rows]


def show_list(call: command.Call) -> int:
    """List the names that ``gnt-instance add -o`` takes: each valid system, with each of its variants."""
    names = [
        [name] for one in _diagnose(call, ["name", "valid", "variants"]) if one["valid"] for name in _variants(one)
    ]
    table = client.Table([client.Field("name", "Name", "text", "")], [[(0, name) for name in row] for row in names])
    return query.print_table(call, table)


def _variants(found: dict[str, object]) -> list[str]:
    variants = found["variants"]
    name = str(found["name"])
    return [f"{name}+{variant}" for variant in variants] if isinstance(variants, list) and variants else [name]


INFO_FIELDS = {
    "valid": "valid",
    "variants": "variants",
    "parameters": "parameters",
    "api_versions": "api versions",
    "hypervisors": "hypervisors",
}


def info(call: command.Call) -> int:
    """Show operating systems in full."""
    found = _diagnose(call, ["name", *INFO_FIELDS])
    print(output.document({str(one["name"]): {word: one[key] for key, word in INFO_FIELDS.items()} for one in found}))
    return 0


def diagnose(call: command.Call) -> int:
    """Show what each node has of each operating system; the exit code is 1 when one is not valid."""
    found = _diagnose(call, ["name", "valid", "node_status"])
    document = {str(one["name"]): {"valid": one["valid"], **_on_nodes(one["node_status"])} for one in found}
    print(output.document(document))
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
            command.Option(
                ("-O", "--os-parameters"), "Parameters of the operating system", "PARAMS", parse=syntax.parameters
            ),
            command.Option(
                command.HYPERVISOR_NAMES,
                "Hypervisor parameters of instances with it, as in kvm:disk_type=ide",
                "HV:PARAMS",
                dest="hypervisor",
                many=True,
                parse=syntax.hypervisor,
            ),
            *command.JOB,
        ),
    ),
    command.Command("diagnose", diagnose, "Show what each node has of them", options=command.PRIORITY),
)
