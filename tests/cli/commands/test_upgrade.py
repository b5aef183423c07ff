"""``gnt-cluster upgrade`` on a cluster whose nodes install what a test lets them install."""

import _thread
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.conftest import Fault, Gnt, Job, Master

from gantry.cli.commands import upgrade

FORMER, LATER = "1.0", "1.1"
RESTART_LOOKS = 3
"""How often a node is looked at while its daemon restarts."""
INTERRUPTED = "interrupted"
"""In place of a job's status: somebody interrupts the command that looks at the job."""


@dataclass
class UpgradedNode:
    """A node; ``breaks`` names a version whose daemon does not start, so the node goes back by itself."""

    name: str
    role: str
    installed: str = FORMER
    started: str = FORMER
    busy: bool = False
    unconfirmed: bool = False
    fault: str = ""
    offline: bool = False
    error: str = ""
    breaks: str = ""
    refuses: str = ""
    waits: int = 0
    wanted: str = ""


@dataclass
class Cluster:
    """What the master daemon knows and does."""

    master: Master
    nodes: list[UpgradedNode] = field(
        default_factory=lambda: [
            UpgradedNode("m", "master"),
            UpgradedNode("c", "candidate"),
            UpgradedNode("r", "regular"),
        ]
    )
    drained: bool = False
    jobs: list[str] = field(default_factory=list)
    findings: list[bool] = field(default_factory=list)
    did: list[tuple[str, str, str]] = field(default_factory=list)
    interrupt: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.master.answers |= {
            "QueryPackages": self._query,
            "ChangePackages": self._change,
            "QueryConfigValues": lambda names: [self.drained],
            "SetDrainFlag": self._drain,
            "SubmitJobToDrainedQueue": self._verify,
        }
        self.known_jobs = self.master._QueryJobs
        self.master.answers["QueryJobs"] = self._jobs

    def node(self, name: str) -> UpgradedNode:
        return next(node for node in self.nodes if node.name == name)

    def _jobs(self, ids: list[int] | None, fields: list[str]) -> list[list[object]]:
        if ids is not None:
            return self.known_jobs(ids, fields)
        status = self.jobs.pop(0) if self.jobs else "success"
        if status == INTERRUPTED:
            _thread.interrupt_main()
        return [[7, status]]

    def _drain(self, drained: bool) -> bool:
        self.drained = drained
        return True

    def _verify(self, ops: list[dict[str, object]]) -> int:
        number = self.master._SubmitJob(ops)
        good = self.findings.pop(0) if self.findings else True
        self.master.jobs[number] = Job(ops, "success", [good], ["ERROR: node r: it smells"])
        return number

    def _query(self) -> list[dict[str, object]]:
        self.interrupt()
        self._pass_time()
        if self.node("m").waits:
            raise ConnectionError
        keys = ("role", "offline", "installed", "started", "busy", "unconfirmed", "fault")
        return [
            {"node": node.name, "later": 1, "error": node.error or ("unreachable" if node.waits else "")}
            | {key: getattr(node, key) for key in keys}
            for node in self.nodes
        ]

    def _pass_time(self) -> None:
        for node in self.nodes:
            if node.waits:
                node.waits -= 1
                if not node.waits and node.wanted != node.breaks:
                    node.installed = node.started = node.wanted
                elif not node.waits:
                    node.unconfirmed = False

    def _change(self, action: str, names: list[str], version: str, confirm_seconds: int) -> list[dict[str, str]]:
        node = self.node(names[0])
        self.did.append((action, node.name, version))
        if node.refuses == action:
            return [{"node": node.name, "error": "no package repository has it"}]
        if action == "install":
            node.wanted, node.waits, node.unconfirmed = version, RESTART_LOOKS, bool(confirm_seconds)
        elif action == "confirm":
            if node.installed != version:
                raise Fault("OpPrereqError", "cannot be confirmed", "wrong_state")
            node.unconfirmed = False
        return [{"node": node.name, "error": ""}]

    def installs(self) -> list[tuple[str, str]]:
        return [(name, version) for action, name, version in self.did if action == "install"]


@pytest.fixture
def cluster(master: Master, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(upgrade, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(upgrade, "VERIFY_TIMEOUT_SECONDS", 0.1)
    return Cluster(master)


def test_nodes_are_upgraded_one_after_the_other_and_the_master_last(cluster: Cluster, gnt: Gnt, root: Path) -> None:
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert (ran.code, ran.err) == (0, "")
    assert cluster.did == [
        *(("check", name, LATER) for name in "rcm"),
        *(("install", "r", LATER), ("confirm", "r", LATER)),
        *(("install", "c", LATER), ("confirm", "c", LATER)),
        *(("install", "m", LATER), ("confirm", "m", LATER)),
    ]
    assert [node.started for node in cluster.nodes] == [LATER] * 3
    assert not cluster.drained
    assert not (root / "lib/upgrade.json").exists()


def test_the_masters_node_is_confirmed_only_after_verify(cluster: Cluster, gnt: Gnt) -> None:
    cluster.findings = [True, False, True]
    assert gnt(f"gnt-cluster upgrade --to {LATER}").code == 0
    assert len(cluster.master.jobs) == 3
    assert cluster.did[-1] == ("confirm", "m", LATER)


def test_running_jobs_end_first_and_a_queue_that_was_drained_stays_so(cluster: Cluster, gnt: Gnt) -> None:
    cluster.drained, cluster.jobs = True, ["running", "waiting", "success"]
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert "Waiting for jobs: 7\n" in ran.out
    assert cluster.drained


def test_the_version_that_all_nodes_have_is_nothing_to_do(cluster: Cluster, gnt: Gnt) -> None:
    ran = gnt(f"gnt-cluster upgrade --to {FORMER}")
    assert (ran.code, ran.out) == (0, f"All nodes have version {FORMER}: nothing to do\n")
    assert not cluster.did


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda cluster: setattr(cluster.node("r"), "error", "cannot be reached"), "r: cannot be reached"),
        (lambda cluster: setattr(cluster.node("r"), "refuses", "check"), "r: no package repository has it"),
        (lambda cluster: setattr(cluster.node("r"), "installed", ""), "r: Gantry was not installed from Debian"),
        (lambda cluster: setattr(cluster.node("r"), "installed", "0.8"), "r: 0.8 and 1.1 are more than one release"),
        (lambda cluster: cluster.findings.append(False), "verify finds errors:\n.*it smells"),
    ],
)
def test_what_is_not_in_order_is_refused_before_anything_changes(
    cluster: Cluster, gnt: Gnt, change: Callable[[Cluster], None], words: str
) -> None:
    change(cluster)
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert ran.code == 1
    assert words.partition("\n")[0] in ran.err
    assert "this run has changed nothing" in ran.err
    assert not cluster.installs()
    assert not cluster.drained


def test_a_node_that_is_marked_offline_keeps_its_version(cluster: Cluster, gnt: Gnt) -> None:
    cluster.node("r").offline, cluster.node("r").error = True, "the node is marked offline"
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert ran.code == 0
    assert "r is marked offline, and keeps its version" in ran.out
    assert [name for name, _ in cluster.installs()] == ["c", "m"]


def test_a_node_that_went_back_takes_all_nodes_back_in_the_reverse_order(cluster: Cluster, gnt: Gnt) -> None:
    cluster.node("c").breaks = LATER
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert ran.code == 1
    assert f"c: it went back to {FORMER}, as its daemon did not work with {LATER}" in ran.err
    assert cluster.installs() == [("r", LATER), ("c", LATER), ("r", FORMER)]
    assert [node.started for node in cluster.nodes] == [FORMER] * 3
    assert not cluster.drained


def test_errors_of_verify_take_all_nodes_back_and_are_shown(cluster: Cluster, gnt: Gnt) -> None:
    cluster.findings = [True, *[False] * 100]
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert ran.code == 1
    assert "it smells" in ran.err
    assert cluster.installs()[3:] == [("m", FORMER), ("c", FORMER), ("r", FORMER)]
    assert ("confirm", "m", LATER) not in cluster.did


def test_a_fault_of_apt_is_reported(cluster: Cluster, gnt: Gnt) -> None:
    cluster.node("r").refuses = "install"
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert "r: no package repository has it" in ran.err
    assert not cluster.drained


def test_a_command_that_was_killed_goes_on_when_it_is_repeated(cluster: Cluster, gnt: Gnt, root: Path) -> None:
    # It was killed while c changed, and before r was confirmed.
    record = {"target": LATER, "former": dict.fromkeys("rcm", FORMER), "drained": False}
    (root / "lib/upgrade.json").write_text(json.dumps(record))
    cluster.drained = True
    regular, candidate = cluster.node("r"), cluster.node("c")
    regular.installed, regular.started, regular.unconfirmed = LATER, LATER, True
    candidate.wanted, candidate.waits, candidate.unconfirmed = LATER, RESTART_LOOKS, True
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Continuing the upgrade to {LATER}\n")
    assert cluster.installs() == [("m", LATER)]
    assert not any(node.unconfirmed for node in cluster.nodes)
    assert not cluster.drained


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_command_says_how_to_go_on_and_how_to_go_back(cluster: Cluster, gnt: Gnt, root: Path) -> None:
    cluster.interrupt = lambda: _thread.interrupt_main() if cluster.node("r").waits else None
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert ran.code == 130
    assert "Interrupted; the queue stays drained. To continue, repeat the command; to go back, run gnt-clus" in ran.err
    assert cluster.drained
    cluster.interrupt = lambda: None
    assert gnt(f"gnt-cluster upgrade --to {LATER}").code == 0
    assert not cluster.drained


@pytest.mark.usefixtures("interrupts")
def test_a_command_that_is_interrupted_before_the_first_node_changes_nothing(
    cluster: Cluster, gnt: Gnt, root: Path
) -> None:
    cluster.jobs = ["running", INTERRUPTED, "running"]
    ran = gnt(f"gnt-cluster upgrade --to {LATER}")
    assert (ran.code, ran.err) == (130, "Interrupted; nothing was changed\n")
    assert not cluster.drained
    assert not (root / "lib/upgrade.json").exists()


def test_an_upgrade_that_has_not_ended_goes_on_or_back_but_nowhere_else(cluster: Cluster, gnt: Gnt, root: Path) -> None:
    record = {"target": LATER, "former": dict.fromkeys("rcm", FORMER), "drained": False}
    (root / "lib/upgrade.json").write_text(json.dumps(record))
    cluster.drained = True
    cluster.node("r").installed = cluster.node("r").started = LATER
    ran = gnt("gnt-cluster upgrade --to 1.2")
    assert f"an upgrade to {LATER} has not ended; repeat gnt-cluster upgrade --to {LATER}, or go back" in ran.err
    assert gnt(f"gnt-cluster upgrade --to {FORMER}").code == 0
    assert cluster.installs() == [("r", FORMER)]
    assert not cluster.drained


@pytest.mark.parametrize("version", ["", "--x", "1.0;id", "latest", "1.0 2.0"])
def test_what_is_no_version_is_refused(cluster: Cluster, gnt: Gnt, version: str) -> None:
    assert "is not a version of a Debian package" in gnt(f"gnt-cluster upgrade --to='{version}'").err
