"""Network namespaces and folders that tests create, and their removal, even after a run was killed.

Their names contain the process id of the run that created them, as in ``gm4711-c0ffee``. The processes in a namespace
are killed before it is deleted; no driver is used for that, because the driver may be what has failed.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

KILL_TIMEOUT_SECONDS = 30.0
# Short, because the path of a socket ends at 107 bytes.
FOLDERS = Path("/tmp")


def name(kind: str) -> str:
    """Return a new name with the process id of this run; ``kind`` are letters."""
    return f"{kind}{os.getpid()}-{uuid.uuid4().hex[:6]}"


@contextlib.contextmanager
def folder(kind: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=f"{name(kind)}-", dir=FOLDERS, ignore_cleanup_errors=True) as path:
        yield path


def end_space(space: str) -> None:
    """Kill the processes in a network namespace, and delete it."""
    limit = time.monotonic() + KILL_TIMEOUT_SECONDS
    while pids := inside(space):
        assert time.monotonic() < limit, f"processes {pids} in {space} cannot be killed"
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


def inside(space: str) -> list[int]:
    """Return the processes in a network namespace, without those that are ending."""
    done = subprocess.run(["ip", "netns", "pids", space], check=False, capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def clear(kind: str) -> None:
    """Remove the namespaces and folders of test runs that have ended."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if _is_orphan(line.split()[0], kind):
            end_space(line.split()[0])
    for path in FOLDERS.glob(f"{kind}[0-9]*"):
        if _is_orphan(path.name, kind):
            shutil.rmtree(path, ignore_errors=True)


def _is_orphan(entry: str, kind: str) -> bool:
    # Random names can begin with digits too. A demonstration has an x instead of the dash and six digits of a test run.
    owner = re.match(rf"{kind}(\d+)(x|-[0-9a-f]{{6}})", entry)
    return owner is not None and not Path(f"/proc/{owner[1]}").exists()
