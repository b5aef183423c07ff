"""Commands that start the master daemon where it is a service of systemd, with a stand-in for systemctl."""

import os
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Gnt
from tests.cluster import lab

from gantry.cli import machine

DAEMON = """#!{python}
import json, os, signal, socket, sys
root = os.environ["GANTRY_ROOT"]
with open(root + "/calls", "a") as file:
    print("gantry-masterd", *sys.argv[1:], file=file)
if sys.argv[1:] == ["init"]:
    sys.exit(0)
path = root + "/run/master.sock"
def end(*_):
    os.unlink(path)
    with open(root + "/calls", "a") as file:
        print("ended", file=file)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
listener = socket.socket(socket.AF_UNIX)
# The socket has its name when it listens.
listener.bind(path + ".new")
listener.listen()
os.rename(path + ".new", path)
answers = {{"SubmitJob": 1, "WaitForJobChange": [["success"], []], "QueryJobs": [["success", ["success"], [True]]]}}
while True:
    connection, _ = listener.accept()
    while message := connection.recv(65536):
        result = answers.get(json.loads(message[:-1])["method"], {{}})
        connection.sendall(json.dumps({{"success": True, "result": result}}).encode() + b"\\x03")
"""

SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> $GANTRY_ROOT/calls
if [ "$1" = start ] && [ -e $GANTRY_ROOT/fail ]; then
    echo "Job for gantry-masterd.service failed." >&2
    exit 1
fi
if [ "$1" = start ] && ! [ -e $GANTRY_ROOT/skip ]; then
    $GANTRY_ROOT/gantry-masterd > /dev/null 2>&1 &
    echo $! > $GANTRY_ROOT/pid
    while ! [ -e $GANTRY_ROOT/run/master.sock ]; do sleep 0.05; done
fi
"""


@pytest.fixture
def managed(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose master daemon is a service."""
    for name, text in (("gantry-masterd", DAEMON.format(python=sys.executable)), ("systemctl", SYSTEMCTL)):
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    monkeypatch.setattr(machine, "program", lambda name: str(root / name))
    monkeypatch.setattr(machine, "has_master_service", lambda: True)
    return root


def calls(root: Path) -> list[str]:
    return (root / "calls").read_text().splitlines()


def end(root: Path) -> None:
    """End the daemon: what it writes last must not come while the folder is removed."""
    pid = int((root / "pid").read_text())
    os.kill(pid, 15)
    lab.wait_until(lambda: lab.is_gone(pid), "the end of the daemon")


def test_init_starts_the_service(gnt: Gnt, managed: Path) -> None:
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 c1")
    assert (ran.code, ran.err) == (0, "")
    assert calls(managed) == ["gantry-masterd init", "systemctl start gantry-masterd", "gantry-masterd"]
    end(managed)


def test_a_failover_ends_the_daemon_that_took_the_role_and_starts_the_service(gnt: Gnt, managed: Path) -> None:
    ran = gnt("gnt-cluster master-failover --ignore-offline-nodes")
    assert (ran.code, ran.err) == (0, "")
    assert calls(managed) == [
        "systemctl stop gantry-masterd",
        "gantry-masterd failover --ignore-offline-nodes",
        "ended",
        "systemctl start gantry-masterd",
        "gantry-masterd",
    ]
    end(managed)


def test_a_service_that_does_not_start_is_reported_with_its_journal(gnt: Gnt, managed: Path) -> None:
    (managed / "fail").touch()
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 c1")
    assert ran.code == 1
    assert ran.err == (
        "Failure: the service gantry-masterd did not start: Job for gantry-masterd.service failed.; "
        "see journalctl -u gantry-masterd\n"
    )


def test_a_service_that_systemd_skips_is_reported(gnt: Gnt, managed: Path) -> None:
    (managed / "skip").touch()
    ran = gnt("gnt-cluster init --primary-ip 192.0.2.1 c1")
    assert ran.code == 1
    assert "was started, but the daemon does not answer; see journalctl -u gantry-masterd" in ran.err


@pytest.mark.parametrize("missing", ["", "systemd", "unit", "system folders"])
def test_the_master_is_a_service_if_systemd_runs_and_has_the_unit_of_the_systems_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    if missing != "systemd":
        (tmp_path / "run").mkdir()
    if missing != "unit":
        (tmp_path / "gantry-masterd.service").touch()
    monkeypatch.setenv("GANTRY_ROOT", str(tmp_path) if missing == "system folders" else "")
    monkeypatch.setattr(machine, "SYSTEMD", str(tmp_path / "run"))
    monkeypatch.setattr(machine, "UNIT_FOLDERS", ("/nonexistent", str(tmp_path)))
    assert machine.has_master_service() is (missing == "")
    assert machine.master_log().startswith("journalctl") is (missing == "")
