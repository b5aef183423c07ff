"""What a run of the tests that was killed leaves behind, and who takes it away."""

import os
import random
import string
import subprocess
from pathlib import Path

import pytest
from tests import leftovers
from tests.cluster import lab
from tests.node import samples

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not samples.HAS_NAMESPACES, reason="network namespaces need root and the ip command"),
]


def dead() -> int:
    """Return the id of a process that is no more."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


@pytest.mark.parametrize("alive", [True, False])
def test_only_processes_without_an_owner_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    monkeypatch.setattr(leftovers, "FOLDERS", tmp_path)
    # Other runs of the tests clear away what is nobody's too, and are to leave this.
    kind = "gz" + "".join(random.choices(string.ascii_lowercase, k=8))
    name = f"{kind}{os.getpid() if alive else dead()}-c0ffee"
    (tmp_path / name).mkdir()
    subprocess.run(["ip", "netns", "add", name], check=True)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"]) as process:
        try:
            lab.wait_until(lambda: leftovers.inside(name) == [process.pid], "the process in its namespace")
            leftovers.clear(kind)
            if not alive:
                process.wait(lab.TIMEOUT)
            assert (process.poll() is None, (tmp_path / name).exists()) == (alive, alive)
        finally:
            leftovers.end_space(name)
            process.kill()
    assert name not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


def test_a_folder_whose_name_came_by_chance_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "FOLDERS", tmp_path)
    chance = tmp_path / f"gz{dead()}_q8xw2"
    chance.mkdir()
    leftovers.clear("gz")
    assert chance.exists()
