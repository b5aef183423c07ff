"""``gnt-node``: the machines of the cluster."""

from gantry.cli import errors, machine
from gantry.cli.commands import moves, storage, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents, object_info

ABOUT = "Adds, shows and removes the machines of the cluster."

LISTING = query.Listing("node", ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"))
ONE = (command.Argument("NODE", completes="node"),)
SOME = (command.Argument("NODE", least=0, most=None, completes="node"),)


def add(call: command.Call) -> int:
    """Take a machine into the cluster."""
    options = call.options
    if bool(options.join_token) == bool(options.join_token_file):
        raise errors.InvalidError(
            "the node's join token is needed, by --join-token-file or --join-token",
            hint="gantry-noded on the new node writes it to /var/lib/gantry/join-token",
        )
    token = options.join_token or machine.read_file(options.join_token_file)
    op: dict[str, object] = {
        "OP_ID": "OP_NODE_ADD",
        "node_name": call.arguments[0],
        "join_token": token.strip(),
        "master_capable": options.master_capable,
        "vm_capable": options.vm_capable,
    }
    given = {
        "primary_ip": options.primary_ip,
        "port": options.port,
        "group": options.node_group,
        "ndparams": options.node_parameters,
    }
    return submit.carry_out(call, op | {key: value for key, value in given.items() if value})


def info(call: command.Call) -> int:
    """Show nodes in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("node", list(object_info.NODE_FIELDS), where=where)
    print(documents.document([object_info.node(record) for record in records]))
    return 0


def modify(call: command.Call) -> int:
    """Change a node's flags and parameters."""
    options = call.options
    names = ("master_candidate", "drained", "offline", "master_capable", "vm_capable")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.node_parameters is not None:
        given["ndparams"] = options.node_parameters
    op: dict[str, object] = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": call.arguments[0], "force": options.force}
    if options.auto_promote:
        op["auto_promote"] = True
    return submit.carry_out(call, op | given, report=_print_changes)


def _print_changes(result: object) -> None:
    changes = result if isinstance(result, list) else []
    if changes:
        print("Modified node")
    for name, value in changes:
        print(f" - {name} -> {value}")


def _flag(names: tuple[str, ...], text: str) -> command.Option:
    name = max(names, key=len).lstrip("-").replace("-", "_")
    return command.Option(names, text, "yes|no", parse=lambda word: syntax.truth(word, name=name))


def remove(call: command.Call) -> int:
    """Send a node out of the cluster."""
    return submit.carry_out(call, {"OP_ID": "OP_NODE_REMOVE", "node_name": call.arguments[0]})


def _truth(name: str) -> command.Option:
    return command.Option(
        (f"--{name.replace('_', '-')}",),
        "Whether it may be a master candidate" if name == "master_capable" else "Whether it may run instances",
        "yes|no",
        parse=lambda text: syntax.truth(text, name=name),
        default=True,
    )


PARAMETERS = command.Option(
    ("--node-parameters",),
    "What differs from the node group's parameters, as in cpu_speed=1.5; -name takes one back",
    "PARAMS",
    parse=syntax.parameters,
)
ADD_TEXT = """
    The machine runs gantry-noded and is in no cluster yet. On its first start the daemon writes
    a join token to /var/lib/gantry/join-token (below GANTRY_ROOT: lib/join-token). Bring that
    file here by a way that you trust; it proves to both sides whom they speak to:
      scp node2:/var/lib/gantry/join-token . && gnt-node add --join-token-file join-token node2
"""

COMMANDS = (
    command.Command(
        "add",
        add,
        "Take a machine into the cluster",
        (command.Argument("NODE"),),
        (
            command.Option(
                ("--join-token-file",),
                "File with the node's join token; - reads it from the input",
                "FILE",
                completes="file",
            ),
            command.Option(("--join-token",), "The join token itself; other users of this machine may see it", "TEXT"),
            command.Option(("--primary-ip",), "Address of its node daemon; without it the name is resolved", "ADDRESS"),
            command.Option(("--port",), "Port of its node daemon", "PORT", parse=syntax.number),
            command.GROUP,
            _truth("master_capable"),
            _truth("vm_capable"),
            PARAMETERS,
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
    *query.commands(LISTING, "nodes", arguments=SOME),
    command.Command("info", info, "Show nodes in full", SOME, aliases=("show",)),
    command.Command(
        "modify",
        modify,
        "Change a node's flags and parameters",
        ONE,
        (
            _flag(("-C", "--master-candidate"), "Whether it keeps a copy of the state and may become the master"),
            _flag(("-D", "--drained"), "Whether it gets no new instances"),
            _flag(("-O", "--offline"), "Whether it is out of order"),
            _flag(("--master-capable",), "Whether it may be a master candidate"),
            _flag(("--vm-capable",), "Whether it may run instances"),
            PARAMETERS,
            command.Option(("--auto-promote",), "Taken for older scripts; another candidate is found by itself"),
            command.Option(("-f", "--force"), "Take a candidate out of the pool though nobody takes its place"),
            *command.JOB,
        ),
    ),
    command.Command("remove", remove, "Send a node out of the cluster", ONE, command.JOB),
    *moves.NODES,
    *storage.NODE_COMMANDS,
    *tags.commands("node", *ONE),
)
