"""What tests make once for all checkouts of a user, in the user's cache: images, kernels, other people's programs."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def folder() -> Path:
    """Return the folder of all that is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def cached(name: str, *scripts: Path, suffix: str = "", arguments: Sequence[str | Path] = ()) -> Path:
    """Return the output file of the first script; it runs only if the file is not cached. Safe for several callers.

    Its arguments are the path of the output and ``arguments``. The output depends only on the content of ``scripts``.
    """
    cache = folder()
    content = b"".join(script.read_bytes() for script in scripts)
    path = cache / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}{suffix}"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            done = subprocess.run([scripts[0], path, *arguments], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return path


def environment(name: str, constraints: Path, *requirements: str) -> Path:
    """Return a virtual environment with other people's programs, made once for all checkouts (``environment.sh``)."""
    script = Path(__file__).parent / "environment.sh"
    return cached(name, script, constraints, arguments=(sys.executable, constraints, *requirements))
