"""Guests in scopes of systemd: names, commands, and what happens while the scope of an earlier run is still there."""

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gantry.runtime.real import RealRuntime, scopes
from gantry.runtime.simulated import World

NAMES = ["web", "web-1.example.org", ".hidden", "a/b", "größe", "a b", "a%b\\c", "x_y:z"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_escaped_as_systemd_does(name: str) -> None:
    if not shutil.which("systemd-escape"):
        pytest.skip("systemd-escape is not installed")
    escaped = subprocess.run(["systemd-escape", "--", name], capture_output=True, text=True, check=True).stdout.strip()
    assert scopes.escape(name) == escaped
    assert scopes.unit(name) == f"gantry-guest-{escaped}.scope"


def test_a_name_is_cut_only_if_it_is_too_long_for_a_unit() -> None:
    longest = "a" * scopes.MAX_NAME
    assert scopes.unit(longest) == f"gantry-guest-{longest}.scope"
    digest = hashlib.sha256(f"{longest}a".encode()).hexdigest()[:16]
    assert scopes.unit(f"{longest}a", 2) == f"gantry-guest-{longest}-{digest}:2.scope"


def test_very_long_names_have_short_and_different_units() -> None:
    long = "-".join(["guest"] * 42)
    units = {scopes.unit(long), scopes.unit(f"{long}-2")}
    assert len(units) == 2
    assert all(len(unit) <= 255 for unit in units)


class Manager:
    """systemd, which still has a scope for the first ``remaining`` questions."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining
        self.questions: list[str] = []
        self.stopped: list[str] = []
        self.group = ""

    async def __call__(self, words: Sequence[str]) -> bytes:
        if words[1] == "stop":
            self.stopped.append(words[2])
            return b""
        self.questions.append(words[-1])
        self.remaining -= 1
        state = "loaded" if self.remaining >= 0 else "not-found"
        return f"LoadState={state}\nControlGroup={self.group}\n".encode()


def command(scope: str) -> list[str]:
    return [
        *("systemd-run", "--scope", "--collect", "--quiet", "--slice=gantry-guests.slice", f"--unit={scope}"),
        *("--description=Guest web of Gantry", "--", "qemu", "-name", "web"),
    ]


FIRST, SECOND, THIRD = "gantry-guest-web.scope", "gantry-guest-web:2.scope", "gantry-guest-web:3.scope"


@pytest.mark.parametrize(
    ("remaining", "questions", "scope"),
    [
        (0, [FIRST], FIRST),
        (3, [FIRST] * 4, FIRST),
        (5, [FIRST] * 5 + [SECOND], SECOND),
        (6, [FIRST] * 5 + [SECOND, THIRD], THIRD),
    ],
)
def test_a_guest_gets_a_scope_of_its_own_also_while_the_last_one_is_not_gone(
    monkeypatch: pytest.MonkeyPatch, remaining: int, questions: list[str], scope: str
) -> None:
    monkeypatch.setattr(scopes, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(scopes, "FREE_TIMEOUT_SECONDS", 0.005)
    manager = Manager(remaining)
    assert asyncio.run(scopes.command("web", ["qemu", "-name", "web"], run=manager)) == command(scope)
    assert manager.questions == questions


@pytest.mark.parametrize(
    ("remaining", "questions"), [(9, [FIRST] * 10), (10, [FIRST] * 10 + [SECOND])], ids=["in time", "late"]
)
def test_the_scope_of_an_earlier_run_has_a_second_to_go(remaining: int, questions: list[str]) -> None:
    manager = Manager(remaining)
    with World(seed=1) as world:

        async def start() -> float:
            began = world.clock.now()
            assert await scopes.command("web", ["qemu", "-name", "web"], run=manager) == command(questions[-1])
            return world.clock.now() - began

        assert world.run(start()) == pytest.approx(remaining * 0.1)
    assert manager.questions == questions


@pytest.mark.parametrize(("processes", "stopped"), [("", [FIRST]), ("17\n", []), (None, [])])
def test_a_scope_is_stopped_only_if_it_has_no_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: str | None, stopped: list[str]
) -> None:
    monkeypatch.setattr(scopes, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(scopes, "FREE_TIMEOUT_SECONDS", 0.005)
    monkeypatch.setattr(scopes, "CGROUPS", (str(tmp_path / "missing"), str(tmp_path)))
    if processes is not None:
        (tmp_path / "scope").mkdir()
        (tmp_path / "scope/cgroup.procs").write_text(processes)
    manager = Manager(1)
    manager.group = "/scope"
    assert asyncio.run(scopes.command("web", ["qemu", "-name", "web"], run=manager)) == command(FIRST)
    assert manager.stopped == stopped


def test_a_line_of_systemctl_that_is_no_property_does_not_count() -> None:
    async def answer(words: Sequence[str]) -> bytes:
        return b"Warning: the unit file changed\n\nControlGroup=/a=b\nLoadState=not-found\n"

    assert asyncio.run(scopes.command("web", ["qemu", "-name", "web"], run=answer)) == command(FIRST)


def test_a_guest_without_a_free_scope_gets_the_error_of_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(scopes, "FREE_TIMEOUT_SECONDS", 0.005)
    manager = Manager(1000)
    assert asyncio.run(scopes.command("web", ["qemu", "-name", "web"], run=manager)) == command(FIRST)
    assert manager.questions == [FIRST] * 5 + [scopes.unit("web", number) for number in range(2, 10)]


def test_without_systemd_a_guest_is_a_program_as_others() -> None:
    async def words() -> Sequence[str]:
        return await RealRuntime().processes.in_scope("web", ["qemu"])

    assert asyncio.run(words()) == ["qemu"]


@pytest.mark.parametrize("is_booted", [True, False])
def test_only_a_service_of_the_machines_systemd_uses_scopes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_booted: bool
) -> None:
    monkeypatch.setattr(scopes, "MANAGER", str(tmp_path if is_booted else tmp_path / "missing"))
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
    assert scopes.are_available() is is_booted
    monkeypatch.setenv("SYSTEMD_EXEC_PID", "1")
    assert not scopes.are_available()


def test_the_process_id_is_that_of_the_guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stand-in of systemd-run becomes the program too, as the real one does for a scope."""
    programs = {
        "systemctl": "echo LoadState=not-found",
        "systemd-run": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(scopes, "are_available", lambda: True)
    processes = RealRuntime().processes

    async def start() -> int:
        words = await processes.in_scope("web", ["/bin/sleep", "600"])
        pid = await processes.start(words, environment=None, log=str(tmp_path / "log"))
        while processes.command_line(pid) != ["/bin/sleep", "600"]:
            assert processes.alive(pid)
            # Also before, the arguments of the guest are among those of the process.
            assert {"/bin/sleep", "600"} <= set(processes.command_line(pid) or words)
            await asyncio.sleep(0.01)
        processes.signal(pid, 9)
        return pid

    assert asyncio.run(start()) > 0
