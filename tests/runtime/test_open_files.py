"""The limit of open files, of a daemon and of the programs that it starts; each test in a process of its own."""

import resource
import subprocess
import sys

import pytest

SOFT = 1000
START = "import asyncio, resource; from gantry.runtime.real import RealRuntime, open_files\n"
OWN = "print(*resource.getrlimit(resource.RLIMIT_NOFILE))\n"


def printed(code: str, hard: int = 4000) -> str:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))

    command = [sys.executable, "-c", START + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, preexec_fn=limited).stdout


def test_it_is_raised_to_the_hard_limit_and_not_above() -> None:
    assert printed(f"print(open_files.raise_limit()); {OWN}") == "4000\n4000 4000\n"


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 70_000, reason="the hard limit is too low here")
def test_it_is_raised_to_the_stated_bound_and_not_above() -> None:
    assert printed(f"open_files.raise_limit(); {OWN}", hard=70_000) == "65536 70000\n"


def test_a_limit_that_is_high_enough_is_left() -> None:
    code = "resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000)); open_files.LIMIT = 2000\n"
    assert printed(f"{code}open_files.raise_limit(); {OWN}") == "4000 4000\n"


@pytest.mark.parametrize("how", ["run", "start", "connected", "pipe"])
def test_a_program_gets_the_limit_that_the_daemon_was_started_with(how: str, tmp_path: object) -> None:
    # The limit is set just after the program has started.
    until = f"n=0; until [ $(ulimit -Sn) = {SOFT} -o $n = 600 ]; do n=$((n + 1)); sleep 0.1; done"
    script = f"{until}; echo $(ulimit -Sn; ulimit -Hn) > {tmp_path}/out"
    wait = f'["/bin/sh", "-c", "{script}"]'
    work = {
        "run": f"runtime.processes.run({wait}, timeout=90)",
        "start": f"runtime.processes.start({wait}, environment=None, log='{tmp_path}/log')",
        "connected": f"runtime.processes.run_connected({wait}, serve)",
        "pipe": f"asyncio.to_thread(bulk._Pipeline, [commands.Stage({wait})], tracking.Tracker(), fed=False)",
    }[how]
    code = (
        "import os\n"
        "from gantry.runtime import commands\n"
        "from gantry.runtime.real import bulk, tracking\n"
        "open_files.raise_limit()\n"
        "async def serve(reader, writer):\n    await reader.read()\n"
        "async def main():\n"
        "    runtime = RealRuntime()\n"
        f"    await {work}\n"
        f"    while not os.path.exists('{tmp_path}/out') or not os.path.getsize('{tmp_path}/out'):\n"
        "        await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
        f"print(open('{tmp_path}/out').read(), end='')\n"
    )
    assert printed(code) == f"{SOFT} 4000\n"
