"""What a test makes on the machine, and its end, also when the run was killed before it could tidy up.

A network namespace and a folder in /tmp bear the process id of the run that made them, as in ``gm4711-c0ffee``.
Whatever runs in a namespace ends with it; so no driver has to be asked, which may be what has just failed.
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

PATIENCE = 30.0
# Short, because the path of a socket ends at 107 bytes.
FOLDERS = Path("/tmp")


def name(kind: str) -> str:
    """Return a new name that tells whose it is; ``kind`` are letters."""
    return f"{kind}{os.getpid()}-{uuid.uuid4().hex[:6]}"


@contextlib.contextmanager
def folder(kind: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=f"{name(kind)}-", dir=FOLDERS, ignore_cleanup_errors=True) as made:
        yield made


def end_space(space: str) -> None:
    """Kill what runs in a network namespace, and delete it."""
    limit = time.monotonic() + PATIENCE
    while pids := inside(space):
        assert time.monotonic() < limit, f"processes {pids} in {space} cannot be killed"
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


def inside(space: str) -> list[int]:
    """Return the processes in a network namespace; what is ending is none any more."""
    done = subprocess.run(["ip", "netns", "pids", space], check=False, capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def clear(kind: str) -> None:
    """Take away what runs of the tests left that are no more."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if _is_orphan(line.split()[0], kind):
            end_space(line.split()[0])
    for path in FOLDERS.glob(f"{kind}[0-9]*"):
        if _is_orphan(path.name, kind):
            shutil.rmtree(path, ignore_errors=True)


def _is_orphan(found: str, kind: str) -> bool:
    # Names that chance makes begin with digits too; a demonstration has an x where others have a dash and six digits.
    owner = re.match(rf"{kind}(\d+)(x|-[0-9a-f]{{6}})", found)
    return owner is not None and not Path(f"/proc/{owner[1]}").exists()
