"""``gantry segment range``: the ranges from which networks of a project get their segmentation ids.

The commands accept the options of contracts/segment-ranges.md#commands (``--network_type``, ``--project_id``,
``--shared yes``, ``--not-used``) and of the ``openstack`` command (``--network-type``, ``--private``, a name as
argument, ``--unused``). ``options`` returns the segment options of ``gnt-network``.
"""

from gantry.cli import errors
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import filters, syntax
from gantry.cli.output import documents

LISTING = query.Listing(
    "segmentrange",
    (
        *("uuid", "name", "default", "shared", "project", "network_type", "physical_network"),
        *("minimum", "maximum", "used_count", "available_count"),
    ),
)
LONG_COLUMNS = ("used", "available_ranges")
TITLES = {
    "uuid": "UUID",
    "name": "Name",
    "description": "Description",
    "default": "Default range",
    "shared": "Shared",
    "project": "Project",
    "network_type": "Network type",
    "physical_network": "Physical network",
    "minimum": "Minimum",
    "maximum": "Maximum",
    "used_count": "Ids in use",
    "available_count": "Free ids",
    "used": "In use, by project",
    "available_ranges": "Free",
    "tags": "Tags",
}
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
NEXT, NONE = "next", "none"


def show_list(call: command.Call) -> int:
    """List segment ranges."""
    conditions: list[filters.Filter] = []
    options = (("used_count", "used", "not_used"), ("available_count", "available", "not_available"))
    for field, positive, negative in options:
        if call.option(positive) and call.option(negative):
            raise errors.InvalidError(f"--{positive} and --{negative.replace('_', '-')} exclude each other")
        conditions += [[">", field, 0]] if call.option(positive) else []
        conditions += [["=", field, 0]] if call.option(negative) else []
    if call.options.long and not call.options.output:
        call.options.output = "+" + ",".join(LONG_COLUMNS)
    return query.show(call, LISTING, where=filters.all_of(*conditions))


def show(call: command.Call) -> int:
    """Show segment ranges in full."""
    records = call.client.records("segmentrange", [*TITLES], where=query.names_filter(call.arguments, LISTING))
    print(documents.document([{title: record.get(name) for name, title in TITLES.items()} for record in records]))
    return 0


def create(call: command.Call) -> int:
    """Create a segment range."""
    options, words = call.options, list(call.arguments)
    shared = options.shared
    if shared is not None and shared.lower() not in TRUTHS:
        # In today's client ``--shared`` is a flag, so the word after it is the name.
        words, shared = [shared, *words], "yes"
    if len(words) + (options.name is not None) > 1:
        raise errors.InvalidError(f"give only one name, not several: {', '.join([*words, options.name or ''])}")
    missing = [name for name in ("network_type", "minimum", "maximum") if getattr(options, name) is None]
    if missing:
        raise errors.InvalidError(f"--{missing[0].replace('_', '-')} is missing")
    if shared is not None and options.private and TRUTHS[shared.lower()]:
        raise errors.InvalidError("--shared and --private exclude each other")
    is_shared = not options.private if shared is None else TRUTHS[shared.lower()]
    if is_shared and options.project:
        raise errors.InvalidError(
            "a shared range has no project", hint="add --private to create the range for the project"
        )
    spec = {
        "name": words[0] if words else options.name or "",
        "shared": is_shared,
        "network_type": options.network_type,
        **{
            field: value
            for field in ("minimum", "maximum", "physical_network", "project", "description", "tags")
            if (value := getattr(options, field)) not in (None, ())
        },
    }
    return submit.carry_out(call, {"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [spec]}, report=_report)


def _report(result: object) -> None:
    for segment_range in result if isinstance(result, list) else []:
        print(segment_range.get("uuid"))


def change(call: command.Call) -> int:
    """Change a segment range."""
    op = call.opcode(SET)
    if not op.keys() - {"OP_ID", "range"}:
        raise errors.InvalidError("nothing to change", hint="give --name, --minimum, --maximum or --description")
    return submit.carry_out(call, op)


def delete(call: command.Call) -> int:
    """Remove segment ranges."""
    ops = [(name, call.opcode("OP_SEGMENT_RANGE_REMOVE", range=name)) for name in call.arguments]
    return submit.carry_out_many(call, ops)


def opcode_fields(call: command.Call) -> dict[str, object]:
    """Return the opcode fields of ``--segment`` of ``gnt-network``."""
    word = call.option("segment")
    if word in (NEXT, NONE):
        return {"segmented": word == NEXT}
    return {"segment": syntax.number(word)} if word is not None else {}


def options(segment: str) -> tuple[command.Option, ...]:
    """Return the options that set the segment of a network; ``segment`` is the help text of ``--segment``."""
    return (
        command.field_option("OP_NETWORK_ADD", "network_type", "--type", metavar="TYPE", dest="network_type"),
        command.field_option("OP_NETWORK_ADD", "physical_network", "--physical-network", metavar="NAME"),
        command.Option(("--segment",), segment, "ID"),
    )


SET = "OP_SEGMENT_RANGE_SET_PARAMS"
RANGE = command.Argument("RANGE", completes="range", field="range")
BOUNDS = (
    command.field_option(SET, "minimum", "--minimum", metavar="ID", parse=syntax.number),
    command.field_option(SET, "maximum", "--maximum", metavar="ID", parse=syntax.number),
    command.field_option(SET, "description", "--description", metavar="TEXT"),
)
CREATE_TEXT = """
    A range is for every project, or with --private for one project. For a single id, minimum and maximum are equal.
      gantry segment range create --name lab --network_type vlan --physical_network physnet1 --minimum 100 --maximum 199
      gantry segment range create --private --project P tenant-a --network-type vxlan --minimum 5000 --maximum 5999
"""

COMMANDS = (
    command.Command(
        "segment range list",
        show_list,
        "List segment ranges",
        (command.Argument("RANGE", minimum=0, maximum=None, completes="range"),),
        (
            command.Option(("--used",), "List only ranges with an id in use"),
            command.Option(("--not-used", "--unused"), "List only ranges without an id in use", dest="not_used"),
            command.Option(("--available",), "List only ranges with a free id"),
            command.Option(
                ("--not-available", "--unavailable"), "List only ranges without a free id", dest="not_available"
            ),
            command.Option(("--long",), "Also show which ids are in use and which are free"),
            *command.QUERY,
            *command.FILTER,
        ),
        text=query.LIST_TEXT,
    ),
    command.Command(
        "segment range show",
        show,
        "Show segment ranges in full",
        (command.Argument("RANGE", minimum=1, maximum=None, completes="range"),),
    ),
    command.Command(
        "segment range create",
        create,
        "Create a segment range",
        (command.Argument("NAME", minimum=0),),
        (
            command.Option(("--name",), "Set the name, which need not be unique", "NAME"),
            command.Option(
                ("--shared",), "Create the range for every project, which is the default", "[YES|NO]", optional=True
            ),
            command.Option(("--private",), "Create the range for one project"),
            command.Option(
                ("--project", "--project_id", "--project-id"),
                "Set the project of a private range",
                "PROJECT",
                dest="project",
            ),
            command.Option(
                ("--network-type", "--network_type"),
                "Set the network type: vlan, vxlan, gre or geneve",
                "TYPE",
                dest="network_type",
            ),
            command.Option(
                ("--physical-network", "--physical_network"),
                "Set the physical network of a VLAN range",
                "NAME",
                dest="physical_network",
            ),
            *BOUNDS,
            command.TAGS,
            *command.JOB,
        ),
        text=CREATE_TEXT,
    ),
    command.Command(
        "segment range set",
        change,
        "Change a segment range; it must keep the ids that are in use",
        (RANGE,),
        (command.field_option(SET, "name", "--name", metavar="NAME"), *BOUNDS, *command.JOB),
    ),
    command.Command(
        "segment range delete",
        delete,
        "Remove segment ranges that have no id in use",
        (command.Argument("RANGE", minimum=1, maximum=None, completes="range"),),
        command.JOB,
    ),
)
