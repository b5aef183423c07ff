"""``gnt-cluster``: the cluster as a whole, from ``init`` to ``destroy``.

``init`` is the only command that runs without a master: it passes its options to ``gantry-masterd init`` as a JSON
document on standard input, starts ``gantry-masterd`` in its own session, waits for its socket, and submits the opcode
that runs the hooks of a new cluster.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

from gantry.cli import client, errors, machine
from gantry.cli.commands import certificates, policies, settings, ssh, storage, tags
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax
from gantry.cli.output import documents, object_info, terminal

ABOUT = "Creates, checks, shows and destroys the cluster."

START_TIMEOUT_SECONDS = 60.0
"""Seconds until the started daemon must answer on its socket."""
STOP_TIMEOUT_SECONDS = 30.0
"""Seconds until the stopped daemon's socket must be gone."""
POLL_SECONDS = 0.05


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
    _make_state({key: value for key, value in document.items() if value is not None and key != "OP_ID"})
    _start_daemon()
    submit.results(call.client, submit.submit(call, call.opcode("OP_CLUSTER_POST_INIT")), log=sys.stdout)
    print(f"The cluster {call.arguments[0]} is up; {node} is its master")
    return 0


def _resolve(node: str) -> str:
    hint = "set the address with --primary-ip"
    try:
        address = str(socket.getaddrinfo(node, 0, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise errors.InvalidError(f"cannot resolve the name {node}: {error.strerror}", hint=hint) from None
    if address.startswith("127.") or address == "::1":
        raise errors.InvalidError(f"{node} resolves to {address}, an address that other nodes cannot reach", hint=hint)
    return address


def _run(words: list[str], document: object) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=json.dumps(document), capture_output=True, text=True, check=False)
    except OSError as error:
        raise _no_daemon(words[0], error) from None


def _no_daemon(path: str, error: OSError) -> errors.CommandError:
    return errors.CommandError(f"cannot run {path}: {error.strerror}", hint="is Gantry's master daemon installed here?")


def _make_state(document: dict[str, object]) -> None:
    process = _run([machine.program("gantry-masterd"), "init"], document)
    sys.stdout.write(process.stdout)
    if process.returncode:
        raise _daemon_error(process.stderr, process.returncode)


def _daemon_error(stderr: str, exit_code: int) -> errors.CommandError:
    # Log lines may precede the error, which begins with the daemon's name.
    message = stderr.rpartition("gantry-masterd: ")[2].strip() or f"gantry-masterd ended with exit code {exit_code}"
    return errors.CommandError(message, exit_code=exit_code if exit_code > 0 else 1)


def _start_daemon() -> None:
    daemon = _launch([])
    _await_daemon(daemon)
    if daemon.returncode is not None:
        raise errors.CommandError(
            f"the cluster was created, but the master daemon ended at once (exit code {daemon.returncode})",
            hint=f"see {machine.master_log()}",
        )


def _launch(arguments: list[str], *, capture_stderr: bool = False, capture: bool = False) -> subprocess.Popen[str]:
    """Start the master daemon in its own session; ``capture_stderr`` makes its errors readable, ``capture`` all."""
    words = [machine.program("gantry-masterd"), *arguments]
    null = subprocess.DEVNULL
    stdout = subprocess.PIPE if capture else null
    stderr = subprocess.PIPE if capture or capture_stderr else null
    try:
        return subprocess.Popen(words, stdin=null, stdout=stdout, stderr=stderr, text=True, start_new_session=True)
    except OSError as error:
        raise _no_daemon(words[0], error) from None


def _await_daemon(daemon: subprocess.Popen[str]) -> None:
    """Wait until the daemon answers or has ended; raises CommandError after ``START_TIMEOUT_SECONDS``."""
    progress = terminal.Progress()
    start = time.monotonic()
    try:
        while not _answers():
            elapsed = time.monotonic() - start
            if daemon.poll() is not None:
                return
            if elapsed > START_TIMEOUT_SECONDS:
                raise errors.CommandError(
                    f"the master daemon does not answer after {START_TIMEOUT_SECONDS:.0f} s",
                    hint=f"see {machine.master_log()}",
                )
            progress.show(f"Waiting for the master daemon, {elapsed:.0f} s")
            time.sleep(POLL_SECONDS)
    finally:
        progress.clear()


def _answers() -> bool:
    luxi = client.Client(attempts=1)
    try:
        luxi.cluster_info()
    except errors.CommandError:
        return False
    finally:
        luxi.close()
    return True


def master_failover(call: command.Call) -> int:
    """Make this node, a master candidate, the master."""
    options = call.options
    words = [
        *(("--no-voting",) if options.no_voting else ()),
        *(("--yes-do-it",) if options.yes_do_it else ()),
        *(("--ignore-offline-nodes",) if options.ignore_offline_nodes else ()),
    ]
    if os.path.exists(machine.master_socket()) and _answers():
        raise errors.CommandError(
            "a master daemon already runs on this node", hint="gnt-cluster getmaster prints the master's name"
        )
    daemon = _launch(["failover", *words], capture_stderr=True)
    _await_daemon(daemon)
    if daemon.returncode is not None:
        raise _daemon_error(daemon.stderr.read() if daemon.stderr else "", daemon.returncode)
    name = machine.ssconf("master_node")
    print(f"{name} is the master of the cluster")
    return 0


def recover(call: command.Call) -> int:
    """Go on without the end of the journal that this machine, the master, has lost."""
    if not call.options.accept_loss:
        raise errors.CommandError(
            "the records that the journal lost are gone after this", hint="add --accept-loss to confirm"
        )
    daemon = _launch(["recover", "--accept-loss"], capture=True)
    output, fault = daemon.communicate()
    if daemon.returncode:
        raise _daemon_error(fault, daemon.returncode)
    print(output, end="")
    return 0


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
    start = time.monotonic()
    while os.path.exists(machine.master_socket()) and _answers():
        if time.monotonic() - start > STOP_TIMEOUT_SECONDS:
            raise errors.CommandError(
                f"the cluster was destroyed, but the master daemon still runs after {STOP_TIMEOUT_SECONDS:.0f} s",
                hint=f"see {machine.master_log()}",
            )
        time.sleep(POLL_SECONDS)
    return 0


def verify(call: command.Call) -> int:
    """Check the cluster; the exit code is 1 if there are errors."""
    job = submit.submit(call, call.opcode("OP_CLUSTER_VERIFY"))
    results = submit.results(call.client, job, log=sys.stdout)
    if call.options.dry_run:
        submit.print_plan(results[0])
        return 0
    return 0 if all(results) else 1


def info(call: command.Call) -> int:
    """Show the cluster."""
    print(documents.document(object_info.cluster(call.client.cluster_info())))
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
)
INIT_TEXT = """
    gantry-noded must already run on this machine. init writes its files below /var/lib/gantry, or
    below GANTRY_ROOT if that is set.
"""
FAILOVER_TEXT = """
    Run this on the master candidate that is to become the master. All nodes are asked whether its copy of the state
    is the newest; the old master daemon is stopped if its node answers. Waiting jobs continue on the new master.
    Running jobs are aborted and marked as failed: while the old master is alive and runs jobs, add --yes-do-it.
"""
FAILOVER_OPTIONS = (
    command.Option(("--no-voting",), "Use this copy of the state without asking the nodes; needs --yes-do-it"),
    command.Option(("--yes-do-it",), "Confirm, and abort running jobs"),
    command.Option(("--ignore-offline-nodes",), "Do not count nodes that are marked offline and do not answer"),
)
RECOVER_TEXT = """
    Run this on the master when its daemon does not start because the end of the journal is missing, and no master
    candidate has the missing records. Job numbers that were given before are not given again. Then start the master
    daemon.
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
    settings.MODIFY,
    command.Command("info", info, "Show the cluster", aliases=("show",)),
    command.Command(
        "show-ispecs-cmd",
        policies.show_cluster,
        "Print the command that creates a cluster with the same instance sizes",
    ),
    command.Command("version", version, "Show the cluster's versions"),
    command.Command("getmaster", getmaster, "Print the master's name"),
    command.Command(
        "master-failover",
        master_failover,
        "Make this node the master",
        options=FAILOVER_OPTIONS,
        aliases=("masterfailover",),
        text=FAILOVER_TEXT,
    ),
    command.Command(
        "recover",
        recover,
        "Go on without the lost end of the journal",
        options=(command.Option(("--accept-loss",), "Confirm that the records which are missing here stay lost"),),
        text=RECOVER_TEXT,
    ),
    command.Command("master-ping", master_ping, "Check whether the master daemon answers"),
    command.Command("queue", queue, "Close or open the job queue", (command.Argument("drain|undrain|info"),)),
    command.Command(
        "watcher",
        watcher,
        "Pause or continue the watcher",
        (command.Argument("pause|continue|info"), command.Argument("DURATION", minimum=0)),
        text="    A duration is in seconds, or has a unit: 30s, 10m, 2h, 1d.",
    ),
    command.Command("redist-conf", redist_conf, "Send the cluster's files to all nodes again", options=command.JOB),
    command.Command(
        "verify",
        verify,
        "Check configuration, nodes and instances",
        options=(
            command.field_option("OP_CLUSTER_VERIFY", "verbose", "-v", "--verbose"),
            command.field_option("OP_CLUSTER_VERIFY", "error_codes", "--error-codes"),
            *JOB_OPTIONS,
        ),
    ),
    command.Command(
        "destroy",
        destroy,
        "Destroy the cluster",
        options=(command.Option(("--yes-do-it",), "Confirm the destruction of the cluster"),),
    ),
    *certificates.COMMANDS,
    *ssh.COMMANDS,
    *storage.CLUSTER_COMMANDS,
    *tags.commands("cluster"),
    tags.SEARCH,
)
