"""``gnt-node``: the machines of the cluster."""

import hashlib
import os
import time

from gantry.cli import client, errors, machine
from gantry.cli.commands import moves, storage, tags
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents, object_info

ABOUT = "Adds, shows and removes the machines of the cluster."

LISTING = query.Listing("node", ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"))
ADD = "OP_NODE_ADD"
INVITE = "OP_NODE_INVITE"
SECRET_BYTES = 24
"""Length of the secret in a token, as in ``gantry.security.invitation``."""
DEFAULT_PORT = 1811
INVITATIONS = {"node": "Node", "state": "State", "end": "End", "group": "Group", "address": "Address"}
MODIFY = "OP_NODE_SET_PARAMS"
NODE = (command.Argument("NODE", completes="node", field="node_name"),)
NODES = (command.Argument("NODE", minimum=0, maximum=None, completes="node"),)


def add(call: command.Call) -> int:
    """Add a machine to the cluster by its join token; without one, invite the machine to join."""
    options = call.options
    if options.join_token and options.join_token_file:
        raise errors.InvalidError(
            "there are two join tokens, in --join-token-file and in --join-token",
            hint="gantry-noded on the new node writes the token to /var/lib/gantry/join-token",
        )
    if options.join_token is None and options.join_token_file is None:
        return _invite(call)
    if not options.join_token and not options.join_token_file:
        raise errors.InvalidError(
            "the join token is empty",
            hint="give the node's join token, or neither of both options to invite the machine",
        )
    token = options.join_token or machine.read_file(options.join_token_file)
    return submit.carry_out(call, call.opcode(ADD, join_token=token.strip()))


def _invite(call: command.Call) -> int:
    """Make an invitation and print the line to run on the machine; the master gets only the hash of the secret."""
    if call.options.submit:
        raise errors.InvalidError("an invitation is complete at once, so --submit has no use", hint="omit --submit")
    secret = os.urandom(SECRET_BYTES).hex()
    answer: dict[str, object] = {}

    def report(result: object) -> None:
        answer.update(client.expect(result, dict))
        if answer.get("joined"):
            return
        address, port, end = (answer.get(name) for name in ("address", "port", "end"))
        if port != DEFAULT_PORT:
            address = f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
        until = time.strftime("%H:%M:%S", time.localtime(client.expect(end, float)))
        print(f"Run this line on {call.arguments[0]}, as root, before {until}; it works once:")
        print(f"gantry-node join {address} --token {secret}")

    secret_hash = hashlib.sha256(secret.encode()).hexdigest()
    code = submit.carry_out(call, call.opcode(INVITE, secret_hash=secret_hash), report=report)
    if answer.get("joined"):
        print(f"The machine of {call.arguments[0]} has joined; its addition, which was interrupted, is completed")
        return submit.carry_out(call, call.opcode(ADD, join_token=""))
    return code


def list_invitations(call: command.Call) -> int:
    """List the invitations of the last day."""
    columns = query.chosen_columns(call.options.output, list(INVITATIONS))
    answer = submit.query(call, call.opcode("OP_NODE_QUERY_INVITATIONS"))
    fields = [
        client.Field(name, INVITATIONS.get(name, name), "text" if name in INVITATIONS else "unknown", "")
        for name in columns
    ]
    rows: list[client.Row] = []
    for row in client.expect(answer, list):
        values = {**row, "end": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["end"]))}
        rows.append([(0, values[name]) if values.get(name) else (3 if name in values else 1, None) for name in columns])
    return query.print_table(call, client.Table(fields, rows))


def revoke_invitation(call: command.Call) -> int:
    """Revoke the invitation of a machine that has not joined yet."""
    return submit.carry_out(call, call.opcode("OP_NODE_REVOKE_INVITATION"))


def info(call: command.Call) -> int:
    """Show nodes in full."""
    where = query.names_filter(call.arguments, LISTING)
    records = call.client.records("node", list(object_info.NODE_FIELDS), where=where)
    print(documents.document([object_info.node(record) for record in records]))
    return 0


def modify(call: command.Call) -> int:
    """Change a node's flags and parameters."""
    node = call.arguments[0]

    def report(result: object) -> None:
        changes = result if isinstance(result, list) else []
        if changes:
            print(f"Modified node {node}")
        for name, value in changes:
            print(f" - {name} -> {value}")

    return submit.carry_out(call, call.opcode(MODIFY), report=report)


def _flag(opcode: str, field: str, *names: str) -> command.Option:
    return command.field_option(
        opcode, field, *names, metavar="yes|no", parse=lambda text: syntax.truth(text, name=field)
    )


def remove(call: command.Call) -> int:
    """Remove a node from the cluster."""
    return submit.carry_out(call, call.opcode("OP_NODE_REMOVE"))


INVITED = (command.Argument("NODE", field="node_name"),)
OUTPUT = command.Option(("-o", "--output"), "Set the columns", metavar="FIELDS")
PARAMETERS = command.Option(
    ("--node-parameters",),
    "Set node parameters that differ from the node group's, as in cpu_speed=1.5; -name resets one",
    "PARAMS",
    parse=syntax.parameters,
    field="ndparams",
    completes="node-parameter",
)
ADD_TEXT = """
    The machine runs gantry-noded and is not yet part of a cluster. Without a join token, this command
    prints a line for it with a token that is valid for an hour and for one use. Run the line there as
    root, and the machine joins; list-invitations shows who may, revoke-invitation ends it:
      gantry-node join MASTER --token TOKEN

    Or carry the join token of the machine to this one. On its first start the daemon writes it to
    /var/lib/gantry/join-token (below GANTRY_ROOT: lib/join-token). Copy that file over a channel that
    you trust; both sides authenticate each other with it:
      scp node2:/var/lib/gantry/join-token . && gnt-node add --join-token-file join-token node2

    With --readd the machine becomes a node again that the cluster has: the node keeps its address,
    its node group, its parameters and its instances, and the certificate of the former machine ends.
    An addition that was interrupted is completed by it, too.
"""

COMMANDS = (
    command.Command(
        "add",
        add,
        "Add a machine to the cluster",
        (command.Argument("NODE", field="node_name"),),
        (
            command.Option(
                ("--join-token-file",),
                "Read the node's join token from this file; - is standard input",
                "FILE",
                completes="file",
            ),
            command.Option(
                ("--join-token",), "Give the join token itself; other users of this machine may see it", "TEXT"
            ),
            command.field_option(
                ADD,
                "primary_ip",
                "--primary-ip",
                help="Set the address of the node daemon; an invited machine may use the address that it connects from",
                metavar="ADDRESS",
            ),
            command.field_option(ADD, "port", "--port", metavar="PORT"),
            command.field_option(ADD, "group", "-g", "--node-group", metavar="GROUP", completes="group"),
            _flag(ADD, "master_capable", "--master-capable"),
            _flag(ADD, "vm_capable", "--vm-capable"),
            PARAMETERS,
            command.field_option(
                ADD, "readd", "--readd", help="Add a node again whose machine has lost its files or was replaced"
            ),
            command.field_option(
                ADD,
                "conflicts_check",
                "--no-conflicts-check",
                help="Do not check whether guests have the address, and do not reserve it in networks",
                negated=True,
            ),
            *(
                command.accepted(name, because="a node is not set up by SSH")
                for name in ("--no-ssh-key-check", "--no-node-setup")
            ),
            command.accepted("-v", "--verbose", because="all messages of the job are always printed"),
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
    *query.commands(LISTING, "nodes", arguments=NODES),
    command.Command("info", info, "Show nodes in full", NODES, aliases=("show",)),
    command.Command(
        "modify",
        modify,
        "Change a node's flags and parameters",
        NODE,
        (
            _flag(MODIFY, "master_candidate", "-C", "--master-candidate"),
            _flag(MODIFY, "drained", "-D", "--drained"),
            _flag(MODIFY, "offline", "-O", "--offline"),
            _flag(MODIFY, "master_capable", "--master-capable"),
            _flag(MODIFY, "vm_capable", "--vm-capable"),
            PARAMETERS,
            command.field_option(MODIFY, "auto_promote", "--auto-promote"),
            command.field_option(MODIFY, "force", "-f", "--force"),
            *command.JOB,
        ),
    ),
    command.Command(
        "list-invitations",
        list_invitations,
        "List the machines that may join, and what became of the invitations of the last day",
        options=(*command.FIELDS_QUERY, OUTPUT),
    ),
    command.Command("revoke-invitation", revoke_invitation, "Revoke the invitation of a machine", INVITED, command.JOB),
    command.Command("remove", remove, "Remove a node from the cluster", NODE, command.JOB),
    *moves.NODE_COMMANDS,
    *storage.NODE_COMMANDS,
    *tags.commands("node", *NODE),
)
