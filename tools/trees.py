"""The content hash of the tree that a run of the tests was made from."""

import hashlib
import subprocess
from pathlib import Path

PARTS = (
    "src",
    "tests",
    "tools",
    "os",
    "demo",
    "deploy",
    "docs/reference/promises",
    "conftest.py",
    "pyproject.toml",
    "requirements.lock",
)
"""The files and folders, relative to the checkout, that decide what tests do."""


def content_hash(root: Path) -> str:
    """Return the SHA-256 of the names and contents of the files below ``root`` that decide what tests do.

    Compiled modules do not count, nor do times: two checkouts of the same files have the same hash.
    """
    digest = hashlib.sha256()
    for part in PARTS:
        path = root / part
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(root)}\0{content}\n".encode())
    return digest.hexdigest()


def commit(root: Path) -> str:
    """Return the commit that is checked out in ``root``, shortened; empty outside a clone."""
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip()
