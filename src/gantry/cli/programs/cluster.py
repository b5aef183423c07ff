"""``gnt-cluster``: the cluster as a whole, from ``init`` to ``destroy``.

``init`` and ``import`` run without a master: they pass their options to ``gantry-masterd init`` or ``import`` as a JSON
document on standard input, start ``gantry-masterd`` in its own session, wait for its socket, and submit the opcode that
runs the hooks of a new cluster.
"""

import contextlib
import os
import socket
import sys
import time

from gantry.cli import client, errors, machine
from gantry.cli.commands import (
    access,
    certificates,
    cluster_info,
    master_daemon,
    policies,
    settings,
    ssh,
    storage,
    tags,
    upgrade,
)
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents

ABOUT = "Creates, checks, shows and destroys the cluster."


def init(call: command.Call) -> int:
    """Create a cluster with this machine as its master."""
    options = call.options
    node = options.node_name or socket.gethostname()
    document = {
        "cluster_name": call.arguments[0],
        "node_name": node,
        "primary_ip": options.primary_ip or _resolve(node),
        "port": options.port,
        **settings.opcode(call),
    }
    _make_state("init", {key: value for key, value in document.items() if value is not None and key != "OP_ID"})
    _begin(call)
    print(f"The cluster {call.arguments[0]} is up; {node} is its master")
    return 0


def import_configuration(call: command.Call) -> int:
    """Create a cluster from the configuration of a cluster of Ganeti, with this machine as its master."""
    options = call.options
    document: dict[str, object] = {"path": os.path.abspath(call.arguments[0]), "dry_run": options.dry_run}
    document |= {name: value for name in ("node_name", "port") if (value := getattr(options, name)) is not None}
    _make_state("import", document)
    if options.dry_run:
        return 0
    _begin(call)
    info = call.client.cluster_info()
    print(f"The cluster {info['name']} is up; {info['master']} is its master")
    names = [str(record["name"]) for record in call.client.records("node", ["name"])]
    other_nodes = [name for name in names if name != info["master"]]
    if other_nodes:
        print("Its other nodes join when gantry-noded runs there, each with the line that this prints:")
        print(*(f"  gnt-node add --readd {name}" for name in other_nodes), sep="\n")
    return 0


def _begin(call: command.Call) -> None:
    """Start the master daemon of a new cluster, and run the hooks."""
    _start_daemon()
    submit.results(call.client, submit.submit(call, call.opcode("OP_CLUSTER_POST_INIT")), log=sys.stdout)


def _resolve(node: str) -> str:
    hint = "set the address with --primary-ip"
    try:
        address = str(socket.getaddrinfo(node, 0, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise errors.InvalidError(f"cannot resolve the name {node}: {error.strerror}", hint=hint) from None
    if address.startswith("127.") or address == "::1":
        raise errors.InvalidError(f"{node} resolves to {address}, an address that other nodes cannot reach", hint=hint)
    return address


def _make_state(action: str, document: dict[str, object]) -> None:
    process = master_daemon.run([machine.program("gantry-masterd"), action], document)
    sys.stdout.write(process.stdout)
    if process.returncode:
        raise master_daemon.daemon_error(process.stderr, process.returncode)


def _start_daemon() -> None:
    if machine.has_master_service():
        master_daemon.start_service()
        return
    daemon = master_daemon.launch([])
    master_daemon.await_daemon(daemon)
    if daemon.returncode is not None:
        raise errors.CommandError(
            f"the cluster was created, but the master daemon ended at once (exit code {daemon.returncode})",
            hint=f"see {machine.master_log()}",
        )


def master_ping(call: command.Call) -> int:
    """Check whether the master daemon answers; the exit code is 0 if it does."""
    call.client.cluster_info()
    return 0


def queue(call: command.Call) -> int:
    """Close or open the job queue for new jobs, or show whether it is closed."""
    (action,) = call.arguments
    if action == "info":
        (drained,) = client.expect(call.client.call("QueryConfigValues", ["drain_flag"]), list)
        print(f"The drain flag is {'set' if drained else 'unset'}")
    elif action in ("drain", "undrain"):
        call.client.call("SetDrainFlag", action == "drain")
    else:
        raise errors.InvalidError(
            f"{action!r} is not an action of gnt-cluster queue", hint="write drain, undrain or info"
        )
    return 0


def watcher(call: command.Call) -> int:
    """Pause or continue the watcher, or show whether it is paused."""
    action, *durations = call.arguments
    if action == "pause" and len(durations) == 1:
        until = time.time() + syntax.seconds(durations[0])
        print(_watcher_state(call.client.call("SetWatcherPause", until)))
    elif action == "continue" and not durations:
        call.client.call("SetWatcherPause", None)
        print("The watcher is no longer paused.")
    elif action == "info" and not durations:
        (until,) = client.expect(call.client.call("QueryConfigValues", ["watcher_pause"]), list)
        print(_watcher_state(until))
    else:
        raise errors.InvalidError(
            f"{' '.join(call.arguments)!r} is not an action of gnt-cluster watcher",
            hint="write pause DURATION, continue or info",
        )
    return 0


def _watcher_state(until: object) -> str:
    if isinstance(until, int | float) and until > time.time():
        return f"The watcher is paused until {time.ctime(until)}."
    return "The watcher is not paused."


def redist_conf(call: command.Call) -> int:
    """Send the cluster's files to all nodes again."""
    return submit.carry_out(call, call.opcode("OP_CLUSTER_REDIST_CONF"))


def destroy(call: command.Call) -> int:
    """Destroy the cluster."""
    if not call.options.yes_do_it:
        raise errors.CommandError("destroying a cluster cannot be undone", hint="add --yes-do-it to confirm")
    job = submit.submit(call, call.opcode("OP_CLUSTER_DESTROY"))
    # The daemon ends with its cluster, perhaps before it reported the job's end.
    with contextlib.suppress(errors.ConnectionLostError):
        submit.results(call.client, job, log=sys.stdout)
    call.client.close()
    master_daemon.await_end()
    return 0


def verify(call: command.Call) -> int:
    """Check the cluster; the exit code is 1 if there are errors."""
    job = submit.submit(call, call.opcode("OP_CLUSTER_VERIFY"))
    log = _FindingsLog()
    results = submit.results(call.client, job, log=log)
    if call.options.dry_run:
        submit.print_plan(results[0])
        return 0
    # Programs read the lines with codes, and nothing else.
    if not call.options.error_codes:
        print(log.conclusion(good=all(results)))
    return 0 if all(results) else 1


class _FindingsLog:
    """Prints the log of a verification, and counts its findings."""

    def __init__(self) -> None:
        self._counts = {"error": 0, "warning": 0}

    def write(self, text: str, /) -> None:
        """Print text, and count it if it is a finding."""
        for word in self._counts:
            self._counts[word] += text.count(f"  - {word.upper()}:")
        sys.stdout.write(text)

    def flush(self) -> None:
        """Let the user see what was printed."""
        sys.stdout.flush()

    def conclusion(self, *, good: bool) -> str:
        """Return the last line: how the verification went."""
        numbers = [f"{count or 'no'} {word}{'' if count == 1 else 's'}" for word, count in self._counts.items()]
        return f"The cluster is {'fine' if good else 'not fine'}: {', '.join(numbers)}"


def repair_stray_guests(call: command.Call) -> int:
    """Stop or adopt the guests that the state does not have running on their nodes."""
    return submit.carry_out(call, call.opcode("OP_CLUSTER_REPAIR_STRAY_GUESTS"))


def info(call: command.Call) -> int:
    """Show the cluster."""
    print(documents.document(cluster_info.document(call.client.cluster_info())))
    return 0


VERSIONS = {
    "Software version": "software_version",
    "Internode protocol": "protocol_version",
    "Configuration format": "config_version",
    "OS api version": "os_api_version",
    "Export interface": "export_version",
    "VCS version": "vcs_version",
}


def version(call: command.Call) -> int:
    """Show the cluster's versions."""
    cluster = call.client.cluster_info()
    for title, key in VERSIONS.items():
        print(f"{title}: {cluster.get(key)}")
    return 0


def getmaster(call: command.Call) -> int:
    """Print the master's name; on a node without a master daemon, the name is from ssconf."""
    name = machine.ssconf("master_node")
    if os.path.exists(machine.master_socket()) or not name:
        try:
            (name,) = client.expect(call.client.call("QueryConfigValues", ["master_node"]), list)
        except errors.CommandError:
            if not name:
                raise
    print(name)
    return 0


INIT_OPTIONS = (
    command.Option(("--node-name",), "Set the name of this machine in the cluster; by default the host name", "NAME"),
    command.Option(
        ("--primary-ip",), "Set the address of this machine's node daemon; by default the name is resolved", "ADDRESS"
    ),
    command.Option(("--port",), "Set the port of the node daemons", "PORT", parse=syntax.number),
    *settings.OPTIONS,
    *settings.ACCEPTED_AT_INIT,
)
INIT_TEXT = """
    gantry-noded must already run on this machine. init writes its files below /var/lib/gantry, or
    below GANTRY_ROOT if that is set.
"""
IMPORT_TEXT = """
    FILE is the config.data of Ganeti 2.0 to 3.1. This machine is one of its nodes, by default the master, and
    gantry-noded must already run here, at the node's address. Everything is converted or nothing; --dry-run only says
    what would be. Ganeti's files stay as they are. Instances that were up are down afterwards: start them when Ganeti's
    guests have ended. The other nodes join by gnt-node add --readd, and keep what the configuration has of them.
"""
STRAY_TEXT = """
    A stray guest runs although the state does not have its instance, has it on another node, or has it down. stop ends
    the guest and keeps its disks; adopt records it, unless its name, addresses or disks have another owner. The copy of
    an instance that also runs on its primary node is always stopped. Each guest is handled by a job of its own.
"""
JOB_OPTIONS = (*command.DRY_RUN, *command.PRIORITY)

COMMANDS = (
    command.Command(
        "init",
        init,
        "Create a cluster with this machine as its master",
        (command.Argument("CLUSTER"),),
        INIT_OPTIONS,
        text=INIT_TEXT,
    ),
    command.Command(
        "import",
        import_configuration,
        "Create a cluster from the configuration of a cluster of Ganeti",
        (command.Argument("FILE", completes="file"),),
        (
            command.Option(
                ("--node-name",), "Set which of its nodes this machine is; by default the master", metavar="NAME"
            ),
            command.Option(("--port",), "Set the port of the node daemons", "PORT", parse=syntax.number),
            *command.DRY_RUN,
        ),
        text=IMPORT_TEXT,
    ),
    settings.MODIFY,
    command.Command("info", info, "Show the cluster", options=(command.ROMAN,), aliases=("show",)),
    command.Command(
        "show-ispecs-cmd",
        policies.show_cluster,
        "Print the command that creates a cluster with the same instance sizes",
    ),
    command.Command("version", version, "Show the cluster's versions"),
    command.Command("getmaster", getmaster, "Print the master's name"),
    *master_daemon.COMMANDS,
    command.Command("master-ping", master_ping, "Check whether the master daemon answers"),
    command.Command("queue", queue, "Close or open the job queue", (command.Argument("drain|undrain|info"),)),
    command.Command(
        "watcher",
        watcher,
        "Pause or continue the watcher",
        (command.Argument("pause|continue|info"), command.Argument("DURATION", minimum=0)),
        text="    A duration is in seconds, or has a unit: 30s, 10m, 2h, 1d.",
    ),
    command.Command(
        "redist-conf",
        redist_conf,
        "Send the cluster's files to all nodes again",
        options=(command.accepted("--yes-do-it", because="there is no question to confirm"), *command.JOB),
    ),
    command.Command(
        "verify",
        verify,
        "Check configuration, nodes and instances",
        options=(
            command.field_option("OP_CLUSTER_VERIFY", "verbose", "-v", "--verbose"),
            command.field_option("OP_CLUSTER_VERIFY", "error_codes", "--error-codes"),
            command.accepted("--no-nplus1-mem", because="the memory for failovers is always checked"),
            command.accepted("--verify-ssh-clutter", because="no SSH keys are managed"),
            *JOB_OPTIONS,
        ),
    ),
    command.Command(
        "repair-stray-guests",
        repair_stray_guests,
        "Stop or adopt guests that the state does not have",
        options=(
            command.field_option("OP_CLUSTER_REPAIR_STRAY_GUESTS", "rule", "--rule", metavar="RULE"),
            *command.JOB,
        ),
        text=STRAY_TEXT,
    ),
    command.Command(
        "destroy",
        destroy,
        "Destroy the cluster",
        options=(command.Option(("--yes-do-it",), "Confirm the destruction of the cluster"),),
    ),
    *upgrade.COMMANDS,
    *certificates.COMMANDS,
    *ssh.COMMANDS,
    *storage.CLUSTER_COMMANDS,
    *tags.commands("cluster"),
    tags.SEARCH,
    *access.COMMANDS,
)
