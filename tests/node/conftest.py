"""A node's folders on a real, short path; a network namespace with a bridge."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator

import pytest

from gantry.runtime import paths


@pytest.fixture
def folders() -> Iterator[paths.Paths]:
    with tempfile.TemporaryDirectory(prefix="g") as root:  # short: a socket's path ends at 107 bytes
        found = paths.Paths.below(root)
        for folder in (found.lib, found.run, found.log, found.etc, found.srv):
            os.mkdir(folder)
        yield found


@pytest.fixture
def namespace() -> Iterator[str]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the ip command")
    name = f"gt{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "add", "br0", "type", "bridge"], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", "br0", "up"], check=True)
        yield name
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["ip", "netns", "delete", name], check=True)
