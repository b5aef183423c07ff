"""Runs the master daemon of this machine: starts it, waits for it, and the commands that take its role or repair it.

``gnt-cluster init``, ``destroy``, ``master-failover`` and ``recover`` need it: no master answers them yet, or no more.
"""

import json
import os
import subprocess
import time

from gantry.cli import client, errors, machine
from gantry.cli.commands import services
from gantry.cli.framework import command
from gantry.cli.output import terminal

START_TIMEOUT_SECONDS = 60.0
"""Seconds until the started daemon must answer on its socket."""
STOP_TIMEOUT_SECONDS = 30.0
"""Seconds until the stopped daemon's socket must be gone."""
POLL_SECONDS = 0.05


def run(words: list[str], document: object) -> subprocess.CompletedProcess[str]:
    """Run a daemon's program with a JSON document on its standard input until it ends."""
    try:
        return subprocess.run(words, input=json.dumps(document), capture_output=True, text=True, check=False)
    except OSError as error:
        raise _no_daemon(words[0], error) from None


def _no_daemon(path: str, error: OSError) -> errors.CommandError:
    return errors.CommandError(f"cannot run {path}: {error.strerror}", hint="is Gantry's master daemon installed here?")


def daemon_error(stderr: str, exit_code: int) -> errors.CommandError:
    """Return the error with which a master daemon ended."""
    # Log lines may precede the error, which begins with the daemon's name.
    message = stderr.rpartition("gantry-masterd: ")[2].strip() or f"gantry-masterd ended with exit code {exit_code}"
    return errors.CommandError(message, exit_code=exit_code if exit_code > 0 else 1)


def launch(arguments: list[str], *, capture_stderr: bool = False, capture: bool = False) -> subprocess.Popen[str]:
    """Start the master daemon in its own session; ``capture_stderr`` makes its errors readable, ``capture`` all."""
    words = [machine.program("gantry-masterd"), *arguments]
    null = subprocess.DEVNULL
    stdout = subprocess.PIPE if capture else null
    stderr = subprocess.PIPE if capture or capture_stderr else null
    try:
        return subprocess.Popen(words, stdin=null, stdout=stdout, stderr=stderr, text=True, start_new_session=True)
    except OSError as error:
        raise _no_daemon(words[0], error) from None


def await_daemon(daemon: subprocess.Popen[str]) -> None:
    """Wait until the daemon answers or has ended; raises CommandError after ``START_TIMEOUT_SECONDS``."""
    progress = terminal.Progress()
    start = time.monotonic()
    try:
        while not answers():
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


def answers() -> bool:
    """Return whether the master daemon of this machine answers."""
    luxi = client.Client(attempts=1)
    try:
        luxi.cluster_info()
    except errors.CommandError:
        return False
    finally:
        luxi.close()
    return True


def await_end() -> None:
    """Wait until the daemon of a destroyed cluster has ended; raises CommandError after ``STOP_TIMEOUT_SECONDS``."""
    start = time.monotonic()
    while os.path.exists(machine.master_socket()) and answers():
        if time.monotonic() - start > STOP_TIMEOUT_SECONDS:
            raise errors.CommandError(
                f"the cluster was destroyed, but the master daemon still runs after {STOP_TIMEOUT_SECONDS:.0f} s",
                hint=f"see {machine.master_log()}",
            )
        time.sleep(POLL_SECONDS)


def master_failover(call: command.Call) -> int:
    """Make this node, a master candidate, the master."""
    options = call.options
    words = [
        *(("--no-voting",) if options.no_voting else ()),
        *(("--yes-do-it",) if options.yes_do_it else ()),
        *(("--ignore-offline-nodes",) if options.ignore_offline_nodes else ()),
    ]
    if os.path.exists(machine.master_socket()) and answers():
        raise errors.CommandError(
            "a master daemon already runs on this node", hint="gnt-cluster getmaster prints the master's name"
        )
    managed = machine.has_master_service()
    if managed:
        # systemd may be about to start the daemon again, which would take the queue's lock meanwhile.
        services.stop()
    daemon = launch(["failover", *words], capture_stderr=True)
    await_daemon(daemon)
    if daemon.returncode is not None:
        raise daemon_error(daemon.stderr.read() if daemon.stderr else "", daemon.returncode)
    if managed:
        _hand_over(daemon)
    name = machine.ssconf("master_node")
    print(f"{name} is the master of the cluster")
    return 0


def _hand_over(daemon: subprocess.Popen[str]) -> None:
    """End the daemon that has taken the role over, and start the service, which keeps the role."""
    daemon.terminate()
    try:
        daemon.communicate(timeout=STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise errors.CommandError(
            f"this node is the master, but its first daemon, process {daemon.pid}, still runs after "
            f"{STOP_TIMEOUT_SECONDS:.0f} s",
            hint=f"end that process, then run systemctl start {machine.MASTER_UNIT}",
        ) from None
    start_service()


def start_service() -> None:
    """Start the unit of the master daemon, and check that the daemon answers: systemd skips it on other nodes."""
    services.start()
    if not answers():
        raise errors.CommandError(
            "the service of the master daemon was started, but the daemon does not answer",
            hint=f"see {machine.master_log()} and systemctl status {machine.MASTER_UNIT}",
        )


def recover(call: command.Call) -> int:
    """Replace the state here by the copy of a candidate, or continue without the end of the journal that was lost."""
    options, source = call.options, call.options.source
    if not (source or options.accept_loss):
        raise errors.CommandError(
            "the records that the journal lost are gone after this, also those on nodes that do not answer",
            hint="install the copy of a master candidate with --from NODE, or add --accept-loss to confirm",
        )
    words = [
        *(("--from", source) if source else ()),
        *(("--accept-loss",) if options.accept_loss else ()),
    ]
    daemon = launch(["recover", *words], capture=True)
    output, fault = daemon.communicate()
    if daemon.returncode:
        raise daemon_error(fault, daemon.returncode)
    print(output, end="")
    return 0


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
    Run this on the master when its daemon does not start because its state is damaged or the end of the journal is
    missing. With --from, the copy of that master candidate is fetched, checked and installed; the replaced files are
    kept in a folder before-recovery-N. Instead of a node it may be a folder of this machine with a copy that was kept
    aside, such as /var/lib/gantry/before-replacement-1. A copy that lacks something is installed only with
    --accept-loss. Without --from, --accept-loss continues with the state here, for when no candidate has the missing
    records: it asks all nodes first, and is refused if one has more. It names the nodes that do not answer, and records
    that only they have are lost, so start them first. Job numbers that this machine or a node that answers knows are
    not given again. Then start the master daemon.
"""
RECOVER_OPTIONS = (
    command.Option(("--from",), "Install the copy of the state that this master candidate has", "NODE", dest="source"),
    command.Option(("--accept-loss",), "Confirm that the records which are missing stay lost"),
)
COMMANDS = (
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
        "Replace a damaged or incomplete state",
        options=RECOVER_OPTIONS,
        text=RECOVER_TEXT,
    ),
)
