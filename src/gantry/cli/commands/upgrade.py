"""``gnt-cluster upgrade``: bring all nodes to another version of Gantry's packages, one after the other.

    check       all nodes answer and have no fault, both versions can be downloaded, ``verify`` finds no error
    drain       the queue takes no jobs, and those that run end
    each node   install, wait for the daemon of the new version, confirm; the master's machine last, after ``verify``
    end         the queue is as it was

A node that is not confirmed in time goes back by itself. If a node or ``verify`` fails, all nodes go back, in the
reverse order. The command is replaced while it runs, so it imports nothing later on. When it was killed, the next run
continues where it was, from what the nodes report and ``upgrade.json`` has (``upgrade_plan``).
"""

import io
import os
import time
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from gantry.cli import client, errors, machine
from gantry.cli.commands import upgrade_plan
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax

T = TypeVar("T")

RECORD = "upgrade.json"
CONFIRM_SECONDS = 300
"""How long a node has for the new version before it goes back by itself."""
BACK_TIMEOUT_SECONDS = 600.0
"""How long the way back may take, after that time."""
VERIFY_TIMEOUT_SECONDS = 120.0
"""How long ``verify`` may find errors after the master has restarted: candidates catch up."""
ANSWER_TIMEOUT_SECONDS = 60.0
"""How long a request is repeated while the master refuses it, because it does not have enough candidates yet."""
POLL_SECONDS = 1.0


class Upgrade:
    """One run of the command."""

    def __init__(self, luxi: client.Client, target: str, *, confirm_seconds: int) -> None:
        self._luxi = luxi
        self._target = target
        self._confirm_seconds = confirm_seconds
        self._path = f"{machine.folder('lib')}/{RECORD}"

    def run(self) -> int:
        """Upgrade the cluster and return the exit code."""
        earlier = self._recorded()
        nodes = self._settled() if earlier else self._nodes()
        if not earlier and not upgrade_plan.remaining(nodes, self._target):
            print(f"All nodes have version {self._target}: nothing to do")
            return 0
        self._check(nodes, first=earlier is None)
        record = earlier or self._begin(nodes)
        changed = False
        try:
            self._drain()
            changed = True
            self._upgrade(record)
        except KeyboardInterrupt:
            raise errors.LeftRunningError(self._interrupted(record, changed=changed)) from None
        except errors.CommandError as failure:
            if changed:
                self._go_back(record, failure)
            self._end(record)
            raise
        self._end(record)
        print(f"All nodes have version {self._target}")
        return 0

    def _recorded(self) -> upgrade_plan.Record | None:
        """Return the record of an upgrade that was not ended; an error if it has another target."""
        if not os.path.exists(self._path):
            return None
        record = upgrade_plan.record(machine.read_file(self._path))
        if record.target == self._target:
            print(f"Continuing the upgrade to {self._target}")
        elif self._target not in record.former.values():
            raise errors.CommandError(
                f"an upgrade to {record.target} has not ended",
                hint=f"repeat gnt-cluster upgrade --to {record.target}, or go back with --to "
                f"{' or '.join(sorted(set(record.former.values())))}",
            )
        return record

    def _check(self, nodes: Sequence[upgrade_plan.Node], *, first: bool) -> None:
        """Check all that can be checked before anything changes; CommandError."""
        for node in nodes:
            if node.offline:
                print(f"{node.name} is marked offline, and keeps its version")
        problems = upgrade_plan.obstacles(nodes, self._target)
        if not problems:
            names = [node.name for node in upgrade_plan.remaining(nodes, self._target)]
            print(f"Checking version {self._target} on {', '.join(names) or 'no node'}", flush=True)
            for name in names:
                problems += [f"{name}: {error}" for error in self._change("check", name, self._target)]
        if problems:
            raise errors.CommandError(
                "the upgrade cannot begin:\n  " + "\n  ".join(problems), hint="this run has changed nothing"
            )
        if first and (findings := self._findings()):
            raise errors.CommandError(
                f"the upgrade cannot begin, as verify finds errors:\n{findings}", hint="this run has changed nothing"
            )

    def _begin(self, nodes: Sequence[upgrade_plan.Node]) -> upgrade_plan.Record:
        former = {node.name: node.installed for node in nodes if not node.offline}
        record = upgrade_plan.Record(self._target, former, self._is_drained())
        machine.write_file(self._path, record.text())
        return record

    def _drain(self) -> None:
        """Close the queue for new jobs, and wait until none runs."""
        self._patiently(lambda: self._luxi.call("SetDrainFlag", True))
        announced: list[int] = []
        while running := self._running_jobs():
            if running != announced:
                print(f"Waiting for jobs: {', '.join(map(str, running))}", flush=True)
                announced = running
            time.sleep(POLL_SECONDS)

    def _upgrade(self, record: upgrade_plan.Record) -> None:
        """Bring all nodes to the version; those that are not in the record have joined since."""
        nodes = [node for node in self._nodes() if not node.offline]
        for node in nodes:
            if not node.has(self._target):
                self._bring(node.name, self._target, confirm_seconds=self._confirm_seconds)
            if node.role != "master":
                self._confirm(node.name)
        print("Verifying the cluster", flush=True)
        limit = time.monotonic() + VERIFY_TIMEOUT_SECONDS
        while findings := self._patiently(self._findings):
            if time.monotonic() > limit:
                raise errors.CommandError(f"verify finds errors which it did not find before:\n{findings}")
            time.sleep(POLL_SECONDS)
        for node in nodes:
            if node.role == "master":
                self._confirm(node.name)

    def _bring(self, name: str, version: str, *, confirm_seconds: int) -> None:
        """Install a version on a node, and wait for it; errors.CommandError."""
        print(f"{name}: installing {version}", flush=True)
        start = time.monotonic()
        refusals = self._change("install", name, version, confirm_seconds)
        while time.monotonic() - start < confirm_seconds + BACK_TIMEOUT_SECONDS:
            node = self._look(name)
            state, reason = upgrade_plan.progress(node, version)
            if state is upgrade_plan.Progress.DONE:
                print(f"{name}: works with {version} after {time.monotonic() - start:.0f} s", flush=True)
                return
            if state is upgrade_plan.Progress.FAILED:
                raise errors.CommandError(f"{name}: {'; '.join(refusals) or reason}")
            time.sleep(POLL_SECONDS)
        raise errors.CommandError(f"{name} does not answer; see journalctl -u gantry-noded -u gantry-upgrade there")

    def _confirm(self, name: str) -> None:
        """Confirm the version of a node; errors.CommandError."""
        limit = time.monotonic() + ANSWER_TIMEOUT_SECONDS
        while refusals := self._change("confirm", name, self._target):
            if time.monotonic() > limit:
                raise errors.CommandError(f"{name} cannot be confirmed: {'; '.join(refusals)}")
            time.sleep(POLL_SECONDS)

    def _go_back(self, record: upgrade_plan.Record, failure: errors.CommandError) -> NoReturn:
        """Bring all nodes back to their former versions, in the reverse order, and say why."""
        print(f"Going back, because {failure.message}", flush=True)
        faults = [fault for name in reversed([*record.former]) if (fault := self._return(name, record.former[name]))]
        if faults:
            raise errors.CommandError(
                "the upgrade failed, and not all nodes are back; the queue stays drained:\n  " + "\n  ".join(faults),
                hint="remove the cause, and repeat the command with the version that all nodes are to have",
            )
        self._end(record)
        raise errors.CommandError(
            f"the upgrade to {self._target} failed, and all nodes are back: {failure.message}",
            hint="remove the cause, and repeat the command",
        )

    def _return(self, name: str, former: str) -> str:
        """Bring a node back to its former version; return why that failed."""
        node = self._look(name)
        try:
            if node is None or not node.has(former) or node.unconfirmed:
                self._bring(name, former, confirm_seconds=0)
        except errors.CommandError as failure:
            return failure.message
        return ""

    def _end(self, record: upgrade_plan.Record) -> None:
        """Leave the queue as it was before the upgrade."""
        if not record.drained:
            self._patiently(lambda: self._luxi.call("SetDrainFlag", False))
        os.unlink(self._path)

    def _interrupted(self, record: upgrade_plan.Record, *, changed: bool) -> str:
        """Return what Ctrl-C leaves; before the first node that is nothing."""
        if changed:
            former = " or ".join(sorted(set(record.former.values())))
            return (
                "Interrupted; the queue stays drained. To continue, repeat the command; to go back, run "
                f"gnt-cluster upgrade --to {former}"
            )
        self._end(record)
        return "Interrupted; nothing was changed"

    def _nodes(self) -> list[upgrade_plan.Node]:
        return upgrade_plan.nodes(self._luxi.call("QueryPackages"))

    def _settled(self) -> list[upgrade_plan.Node]:
        """Return the nodes once all of them answer, and none changes its packages."""
        limit = time.monotonic() + self._confirm_seconds + BACK_TIMEOUT_SECONDS
        while True:
            nodes = self._patiently(self._nodes)
            moving = [node.name for node in nodes if not node.offline and (node.error or node.busy)]
            if not moving or time.monotonic() > limit:
                return nodes
            time.sleep(POLL_SECONDS)

    def _look(self, name: str) -> upgrade_plan.Node | None:
        """Return a node as it reports itself; None while the master does not answer."""
        try:
            return next((node for node in self._nodes() if node.name == name), None)
        except errors.CommandError:
            self._luxi.close()
            return None

    def _change(self, action: str, name: str, version: str, confirm_seconds: int = 0) -> list[str]:
        """Have a node do something; return why it did not. A lost answer is no refusal: the node shows what it does."""
        try:
            answer = self._luxi.call("ChangePackages", action, [name], version, confirm_seconds)
        except errors.CommandError as error:
            self._luxi.close()
            return [str(error)]
        return [row["error"] for row in client.expect(answer, list) if row["error"]]

    def _is_drained(self) -> bool:
        (drained,) = client.expect(self._luxi.call("QueryConfigValues", ["drain_flag"]), list)
        return bool(drained)

    def _running_jobs(self) -> list[int]:
        rows = client.expect(self._luxi.call("QueryJobs", None, ["id", "status"]), list)
        return sorted(number for number, status in rows if status not in submit.FINAL)

    def _findings(self) -> str:
        """Return what ``verify`` finds, empty if there is no error; the queue is drained."""
        job = client.expect(self._luxi.call("SubmitJobToDrainedQueue", [{"OP_ID": "OP_CLUSTER_VERIFY"}]), int)
        log = io.StringIO()
        try:
            return "" if all(submit.results(self._luxi, job, log=log)) else log.getvalue()
        except errors.LeftRunningError:
            raise KeyboardInterrupt from None

    def _patiently(self, request: Callable[[], T]) -> T:
        """Repeat a request while the master restarts, or has too few candidates to change anything."""
        limit = time.monotonic() + ANSWER_TIMEOUT_SECONDS
        while True:
            try:
                return request()
            except errors.CommandError:
                self._luxi.close()
                if time.monotonic() > limit:
                    raise
            time.sleep(POLL_SECONDS)


def upgrade(call: command.Call) -> int:
    """Bring all nodes to another version."""
    target = upgrade_plan.check_version(call.options.to or "")
    return Upgrade(call.client, target, confirm_seconds=call.options.confirm_timeout).run()


TEXT = """
    All nodes are upgraded one after the other, the master last, while guests run. The packages of both versions must be
    in a repository of each node. First everything is checked; then the queue is drained. A node goes back by itself if
    it is not confirmed in time; if a node or verify fails, all nodes go back. After an interruption, repeat the command
    to continue, or name the former version to go back.
"""
COMMANDS = (
    command.Command(
        "upgrade",
        upgrade,
        "Bring all nodes to another version of Gantry",
        options=(
            command.Option(("--to",), "Set the version of the Debian packages to install", "VERSION"),
            command.Option(
                ("--confirm-timeout",),
                f"Set the seconds after which an unconfirmed node goes back by itself; by default {CONFIRM_SECONDS}",
                "SECONDS",
                default=CONFIRM_SECONDS,
                parse=syntax.number,
            ),
        ),
        text=TEXT,
    ),
)
