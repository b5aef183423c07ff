"""gantry-noded as a program."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from tests import ports

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def root() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        yield folder


@pytest.fixture
def start(root: str) -> Iterator[Start]:
    """Return a function that starts a daemon with the folders of ``root``; stop running daemons at the end."""
    started: list[subprocess.Popen[str]] = []

    def run(port: int, *options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "gantry.daemons.node", "--bind", "127.0.0.1", *options]
        command += ["--port", str(port)] if port else []
        environment = {**os.environ, "GANTRY_ROOT": root, "PYTHONPATH": os.pathsep.join(sys.path)}
        started.append(subprocess.Popen([*command, "--name", "n1"], env=environment, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def wait_for(port: int) -> None:
    limit = time.monotonic() + 60
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        assert time.monotonic() < limit, "the daemon does not listen"
        time.sleep(0.05)


def test_it_listens_leaves_a_join_token_and_ends_cleanly_on_a_signal(root: str, start: Start) -> None:
    port = ports.free()
    daemon = start(port)
    wait_for(port)
    token = os.stat(f"{root}/lib/join-token")
    assert token.st_mode & 0o777 == 0o600
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=60) == 0
    with open(f"{root}/log/node-daemon.log") as log:
        output = log.read()
    assert f"n1 listens on 127.0.0.1 port {port}" in output
    assert "guests continue to run" in output


def test_its_health_port_says_what_keeps_it_from_work_and_counts_its_calls(start: Start) -> None:
    port, health = ports.free(), ports.free()
    start(port, "--health-port", str(health))
    wait_for(port)
    wait_for(health)

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert get("/healthz") == (200, "ok\n")
    assert get("/readyz") == (503, "belongs to no cluster\n")
    anybody = ssl._create_unverified_context()
    for call in ("Version", "Version", "Nonsense"):
        request = urllib.request.Request(f"https://127.0.0.1:{port}/{call.lower()}", b"{}")
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, context=anybody, timeout=60):
            pass
    status, text = get("/metrics")
    assert status == 200
    calls = 'gantry_served_call_duration_seconds_count{call="%s",outcome="%s"} %s\n'
    assert calls % ("version", "done", "2.0") in text
    assert calls % ("other", "failed", "1.0") in text


def _log(root: str) -> str:
    with open(f"{root}/log/node-daemon.log") as log:
        return log.read()


def _wait_for_log(root: str, text: str) -> None:
    limit = time.monotonic() + 60
    while text not in _log(root):
        assert time.monotonic() < limit, _log(root)
        time.sleep(0.05)


def test_it_reads_its_file_again_at_sighup_and_goes_on_with_its_settings_after_a_typo(root: str, start: Start) -> None:
    os.mkdir(f"{root}/etc")
    file, port = f"{root}/etc/node.toml", ports.free()
    with open(file, "w") as settings:
        settings.write(f"port = {port}\n")
    daemon = start(0)
    wait_for(port)
    with open(file, "w") as settings:
        settings.write("debug = true\nprot = 1\n")
    daemon.send_signal(signal.SIGHUP)
    _wait_for_log(root, "gantry-noded keeps its settings")
    assert f"ERROR gantry.daemons.options.config_file: {file}:2: 'prot' is not a setting" in _log(root)
    with open(file, "w") as settings:
        settings.write(f"debug = true\nport = {port}\n")
    daemon.send_signal(signal.SIGHUP)
    _wait_for_log(root, f"gantry-noded has read {file} again")
    assert f"{file}: debug changes from False to True" in _log(root)
    wait_for(port)
    assert daemon.poll() is None


def test_a_second_daemon_with_the_same_folders_is_refused(root: str, start: Start) -> None:
    port = ports.free()
    first = start(port)
    wait_for(port)
    second = start(ports.free())
    _, output = second.communicate(timeout=60)
    assert second.returncode == 1
    assert output == f"gantry-noded: another gantry-noded already uses the folders of {root}; stop it first\n"
    assert first.poll() is None


def test_a_port_that_is_taken_is_said_in_one_line(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        daemon = start(taken.getsockname()[1])
        _, output = daemon.communicate(timeout=60)
    assert daemon.returncode == 1
    assert "address already in use; ss -ltnp shows the program" in output.splitlines()[-1]
    assert "Traceback" not in output
