"""The mode of log files: of new ones, of those of an earlier version, and after log rotation."""

import os
import socket
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


REQUESTS = """
import logging
from gantry.daemons import logs
from gantry.runtime import paths, request_ids
logs.configure(paths.Paths.below({root!r}), "some-daemon", debug=False)
logging.info("first")
request_ids.CURRENT.set("req-7")
logging.info("second")
try:
    1 / 0
except ZeroDivisionError:
    logging.exception("third")
"""


def test_a_line_ends_with_the_id_of_the_request_that_the_task_works_for(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    subprocess.run([sys.executable, "-c", REQUESTS.format(root=str(tmp_path))], check=True, timeout=60)
    lines = (tmp_path / "log/some-daemon.log").read_text().splitlines()
    assert [line.partition(" root: ")[2] for line in lines[:3]] == ["first", "second [req-7]", "third [req-7]"]
    assert lines[-1] == "ZeroDivisionError: division by zero"


LEVELS = """
import logging
from gantry.daemons import logs
from gantry.runtime import paths
logs.configure(paths.Paths.below({root!r}), "some-daemon", debug=False)
logging.debug("first")
logs.set_debug(debug=True)
logging.debug("second")
logs.set_debug(debug=False)
logging.debug("third")
logging.info("fourth")
"""


def test_a_running_daemon_can_change_its_level(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    command = [sys.executable, "-c", LEVELS.format(root=str(tmp_path))]
    ended = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    lines = (tmp_path / "log/some-daemon.log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["second", "fourth"]
    assert [line.rpartition(" ")[2] for line in ended.stderr.splitlines()] == ["second"]


@pytest.mark.parametrize("wants_files", ["", "1"])
def test_a_service_logs_to_the_journal_and_to_files_on_request(tmp_path: Path, wants_files: str) -> None:
    program = f"""
import logging, os
os.environ["SYSTEMD_EXEC_PID"] = str(os.getpid())
from gantry.runtime.real import journal
journal.SOCKET = {str(tmp_path / "journal")!r}
journal.Handler.__init__.__defaults__ = (journal.SOCKET,)
from gantry.daemons import logs
from gantry.runtime import paths
logs.configure(paths.Paths.below({str(tmp_path)!r}), "some-daemon", debug=False)
logs.configure_access(paths.Paths.below({str(tmp_path)!r}), "some-access")
logging.getLogger("gantry").warning("a warning")
logging.getLogger("gantry.access").info("GET / 200")
"""
    (tmp_path / "log").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "journal"))
        environment = {**os.environ, "GANTRY_LOG_FILES": wants_files}
        ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        messages = [receiver.recv(65536), receiver.recv(65536)]
    assert ran.stderr == b""
    assert [b"a warning" in messages[0], b"gantry-some-daemon" in messages[0]] == [True, True]
    assert [b"GET / 200" in messages[1], b"gantry-some-access" in messages[1]] == [True, True]
    files = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert files == (["some-access.log", "some-daemon.log"] if wants_files else [])


WITHOUT_FILES = """
import logging
from gantry.daemons import logs
from gantry.runtime import paths
logs.configure(paths.Paths.below({root!r}), "some-daemon", debug=False)
logs.configure_access(paths.Paths.below({root!r}), "some-access")
logging.debug("first")
logging.info("second")
logging.getLogger("gantry.access").info("GET / 200")
logs.set_debug(debug=True)
logging.debug("third")
"""


def test_a_daemon_without_log_files_logs_everything_to_standard_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_FILES.format(root=str(tmp_path))]
    environment = {**os.environ, "GANTRY_LOG_FILES": "0"}
    ended = subprocess.run(command, check=True, env=environment, timeout=60, capture_output=True, text=True)
    lines = ended.stderr.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["second", "GET / 200", "third"]
    assert list(tmp_path.iterdir()) == []
