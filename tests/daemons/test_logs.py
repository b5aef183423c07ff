"""The mode of log files: of new ones, of those of an earlier version, and after log rotation."""

import subprocess
import sys
from pathlib import Path

import pytest

from gantry.runtime.real import RealRuntime

SCRIPT = """
import logging, os
from gantry.daemons import logs
from gantry.runtime import paths
os.umask({umask})
logs.configure(paths.Paths.below({root!r}), "some-daemon", debug=False)
logs.configure_access(paths.Paths.below({root!r}), "some-access")
logging.info("first")
logging.getLogger("gantry.access").info("first")
for name in ("some-daemon", "some-access"):
    os.rename(f"{root}/log/{{name}}.log", f"{root}/log/{{name}}.log.1")
logging.info("second")
logging.getLogger("gantry.access").info("second")
"""


@pytest.mark.parametrize(("umask", "mode"), [("0o022", 0o640), ("0", 0o640), ("0o077", 0o600)])
def test_a_log_is_not_for_everybody_even_after_rotation(tmp_path: Path, umask: str, mode: int) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    code = SCRIPT.format(root=str(tmp_path), umask=umask)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == dict.fromkeys(
        ("some-daemon.log", "some-daemon.log.1", "some-access.log", "some-access.log.1"), mode
    )
    assert "second" in (folder / "some-access.log").read_text()


def test_a_log_of_an_earlier_version_loses_the_rights_of_others(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    old = tmp_path / "log/some-daemon.log"
    old.write_text("old\n")
    old.chmod(0o644)
    subprocess.run([sys.executable, "-c", SCRIPT.format(root=str(tmp_path), umask="0o022")], check=True, timeout=60)
    kept = tmp_path / "log/some-daemon.log.1"
    assert kept.stat().st_mode & 0o777 == 0o640
    assert kept.read_text().startswith("old\n")


async def test_the_log_of_a_guest_is_not_for_everybody(tmp_path: Path) -> None:
    log = tmp_path / "guest.log"
    await RealRuntime().processes.start(["/bin/true"], environment=None, log=str(log))
    assert log.stat().st_mode & 0o777 == 0o640
