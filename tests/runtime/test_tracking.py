"""Tracked programs do not outlive their daemon for long, however it ends and however they try."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantry.runtime import commands, real, simulated
from gantry.runtime.simulated import processes

TIMEOUT_SECONDS = 60.0
WRITER = 'while :; do echo x >> "$0"; sleep 0.01; done'
DAEMON = """
import asyncio, sys
from gantry.runtime import commands, real

async def main(folder, tracked, *arguments):
    runtime = real.RealRuntime()
    await runtime.processes.track(folder)
    if tracked == "stream":
        listener = await runtime.streams.listen("127.0.0.1", token="t", tls=None)
        stages = [commands.Stage(arguments, tracked=True)]
        await runtime.streams.send(stages, host="127.0.0.1", port=listener.port, token="t", tls=None, timeout=60)
    await runtime.processes.run(arguments, tracked=tracked == "yes")

asyncio.run(main(*sys.argv[1:]))
"""
PROGRAMS = {
    "a shell": ["sh", "-c", WRITER],
    "a shell that ignores SIGTERM": ["sh", "-c", f"trap '' TERM HUP; {WRITER}"],
    "a child in another session": ["sh", "-c", f"setsid sh -c '{WRITER}' \"$0\" >/dev/null & wait"],
    "a child that the shell does not wait for": ["sh", "-c", f"setsid sh -c '{WRITER}' \"$0\" & exit 0"],
    "a child without inherited files": [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run(['sh', '-c', {WRITER!r}, sys.argv[1]])",
    ],
    "an orphan without inherited files": [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.Popen(['sh', '-c', {WRITER!r}, sys.argv[1]])",
    ],
}


def wait_for_write(path: Path, daemon: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until the file grows; fail if the daemon ends before."""
    size, limit = path.stat().st_size if path.exists() else 0, time.monotonic() + TIMEOUT_SECONDS
    while not path.exists() or path.stat().st_size == size:
        assert daemon is None or daemon.poll() is None
        assert time.monotonic() < limit, "nothing is written"
        time.sleep(0.02)


def writers(path: Path) -> list[int]:
    """Return the processes that have the file's path among their arguments."""
    pids = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if str(path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(int(pid))
    return pids


@contextlib.contextmanager
def killed_daemon(folder: Path, program: list[str], *, tracked: str = "yes") -> Iterator[Path]:
    """Kill a daemon while its program writes to a file; clean up what is left."""
    path = folder / "disk"
    arguments = [str(folder / "programs"), tracked, *program, str(path)]
    daemon = subprocess.Popen([sys.executable, "-c", DAEMON, *arguments])
    try:
        wait_for_write(path, daemon)
        daemon.kill()
        daemon.wait(TIMEOUT_SECONDS)
        wait_for_write(path)
        yield path
    finally:
        for pid in writers(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", PROGRAMS)
async def test_the_next_daemon_ends_what_a_killed_daemon_has_left(kind: str, tmp_path: Path) -> None:
    with killed_daemon(tmp_path, PROGRAMS[kind]) as path:
        await real.RealRuntime().processes.track(str(tmp_path / "programs"))
        assert writers(path) == []
        assert os.listdir(tmp_path / "programs") == ["mark"]


async def test_the_programs_of_a_stream_are_ended_too(tmp_path: Path) -> None:
    with killed_daemon(tmp_path, PROGRAMS["a shell"], tracked="stream") as path:
        await real.RealRuntime().processes.track(str(tmp_path / "programs"))
        assert writers(path) == []


OTHER_MACHINE = """
mount -t tmpfs tmpfs "$0" && : >"$0/mark" && exec 3<"$0/mark" && echo ready && exec sleep 1000
"""


def test_a_daemon_ends_no_program_of_another_machine_that_has_folders_of_the_same_name(tmp_path: Path) -> None:
    """Two node daemons in containers that share the process ids must not end each other and their programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mark").touch()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", OTHER_MACHINE, str(programs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stderr
        try:
            if program.stdout.readline() != b"ready\n":
                pytest.skip(f"no mount namespace can be made here: {program.stderr.read().decode().strip()}")
            assert str(programs / "mark") == os.readlink(f"/proc/{program.pid}/fd/3")
            asyncio.run(real.RealRuntime().processes.track(str(programs)))
            assert program.poll() is None
        finally:
            program.kill()


async def test_a_program_that_is_not_tracked_goes_on(tmp_path: Path) -> None:
    with killed_daemon(tmp_path, PROGRAMS["a shell"], tracked="no") as path:
        await real.RealRuntime().processes.track(str(tmp_path / "programs"))
        assert writers(path)
        wait_for_write(path)


@pytest.fixture
def stranger() -> Iterator[int]:
    """The leader of a session that no daemon has started."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process.pid
    assert process.poll() is None
    process.kill()
    process.wait()


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def test_a_process_that_has_reused_the_number_of_a_session_is_left_alone(stranger: int, tmp_path: Path) -> None:
    (tmp_path / str(stranger)).write_text(f"{BOOT} 1")
    await real.RealRuntime().processes.track(str(tmp_path))


async def test_a_session_of_an_earlier_boot_is_left_alone(stranger: int, tmp_path: Path) -> None:
    (tmp_path / str(stranger)).write_text(f"another-boot {started(stranger)}")
    await real.RealRuntime().processes.track(str(tmp_path))


async def test_a_program_that_ends_leaves_no_record(tmp_path: Path) -> None:
    runtime = real.RealRuntime()
    await runtime.processes.track(str(tmp_path))
    assert (await runtime.processes.run(["sh", "-c", "exit 3"], tracked=True)).code == 3
    with pytest.raises(TimeoutError):
        await runtime.processes.run(["sleep", "60"], timeout=0.1, tracked=True)
    assert os.listdir(tmp_path) == ["mark"]


def test_a_simulated_program_survives_a_kill_until_the_next_daemon() -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("node1")
        written: list[float] = []

        async def write(_: processes.Invocation) -> commands.Completed:
            while True:
                await machine.clock.sleep(1)
                written.append(machine.clock.monotonic())

        machine.processes.programs["writer"] = write

        async def live() -> None:
            await machine.processes.track("/run")
            await machine.processes.run(["writer"], tracked=True)

        daemon = machine.launch(["noded"], live())
        world.run(machine.clock.sleep(3.5))
        daemon.boot.end()
        world.run(machine.clock.sleep(3))
        assert len(written) == 6
        machine.launch(["noded"], live())
        world.run(asyncio.sleep(0.1))
        assert len(written) == 6
