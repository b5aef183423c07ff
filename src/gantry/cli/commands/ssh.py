"""``gnt-cluster command`` and ``gnt-cluster copyfile``, the only commands that use SSH.

They need ``ssh`` and ``scp``, and keys with which root may log in on the nodes; they never ask for a password. They
process nodes one after the other and skip offline nodes (contracts/cluster-design.md#daemons).
"""

import os
import subprocess
import sys
from typing import NamedTuple

from gantry.cli import client, errors
from gantry.cli.framework import command
from gantry.cli.grammar import filters

OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=30")
DEFAULT_PORT = 22
RULE = "-" * 48


class Node(NamedTuple):
    """A node to connect to."""

    name: str
    host: str
    is_master: bool
    port: int

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of ``ssh`` and ``scp``; without the default port, so that SSH's configuration applies."""
        return OPTIONS if self.port == DEFAULT_PORT else (*OPTIONS, f"-oPort={self.port}")


def run(call: command.Call) -> int:
    """Run a command on nodes; the exit code is 1 if it failed on any node."""
    options = call.options
    failed = False
    for node in sorted(_nodes(call), key=lambda node: node.is_master):
        process = _execute(["ssh", *node.options, f"root@{node.host}", " ".join(call.arguments)])
        failed |= process.returncode != 0
        if process.returncode or not options.failure_only:
            _show(node, process, every_line=options.show_machine_names)
    return 1 if failed else 0


def _show(node: Node, process: subprocess.CompletedProcess[str], *, every_line: bool) -> None:
    print(RULE)
    if every_line:
        sys.stdout.writelines(f"{node.name}: {line}\n" for line in process.stdout.splitlines())
    else:
        print(f"node: {node.name}")
        print(process.stdout.rstrip("\n"))
    print(f"return code = {process.returncode}", flush=True)


def copy_file(call: command.Call) -> int:
    """Copy a file to the same path on nodes; the exit code is 1 if a copy failed."""
    path = os.path.abspath(call.arguments[0])
    if not os.path.isfile(path):
        raise errors.InvalidError(f"{path} is not a file")
    failed = False
    for node in _nodes(call):
        if node.is_master:
            continue
        host = f"[{node.host}]" if ":" in node.host else node.host
        process = _execute(["scp", *node.options, "-p", "-q", path, f"root@{host}:{path}"])
        if process.returncode:
            failed = True
            print(f"Copy of file {path} to node {node.name} failed: {process.stdout.strip()}", file=sys.stderr)
    return 1 if failed else 0


def _nodes(call: command.Call) -> list[Node]:
    """Return the online nodes that the options select."""
    fields = ["name", "sip", "master", "offline", "ndp/ssh_port"]
    chosen = filters.any_of("name", call.options.node)
    if call.options.node_group:
        chosen = filters.all_of(chosen, ["=", "group", call.options.node_group])
    records = call.client.records("node", fields, where=chosen)
    if call.options.node_group and not records:
        raise errors.InvalidError(f"none of the selected nodes is in node group {call.options.node_group}")
    offline = [str(record["name"]) for record in records if record["offline"]]
    if offline:
        print(f"Note: skipping offline node(s): {', '.join(offline)}", file=sys.stderr)
    host = "sip" if call.option("use_replication_network") else "name"
    return [
        Node(
            str(record["name"]),
            client.expect(record[host], str),
            bool(record["master"]),
            client.expect(record["ndp/ssh_port"], int),
        )
        for record in records
        if not record["offline"]
    ]


def _execute(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise errors.CommandError(
            f"cannot run {words[0]}: {error.strerror}", hint="install the package openssh-client"
        ) from None


WHERE = (
    command.Option(("-n", "--node"), "Use only this node", "NODE", repeatable=True, completes="node"),
    command.Option(("-g", "--node-group"), "Use only the nodes of this group", "GROUP", completes="group"),
)
COMMANDS = (
    command.Command(
        "command",
        run,
        "Run a command on all nodes by SSH",
        (command.Argument("COMMAND", maximum=None),),
        (
            *WHERE,
            command.Option(("-M", "--show-machine-names"), "Put the node's name before each line"),
            command.Option(("--failure-only",), "Show only nodes on which the command failed"),
        ),
        text="    Options must precede COMMAND; the words after it belong to it. The node's shell runs it.",
        verbatim=True,
    ),
    command.Command(
        "copyfile",
        copy_file,
        "Copy a file of the master to the same path on all nodes by SSH",
        (command.Argument("FILE", completes="file"),),
        (
            *WHERE,
            command.Option(("--use-replication-network",), "Connect to the nodes' secondary addresses"),
        ),
    ),
)
