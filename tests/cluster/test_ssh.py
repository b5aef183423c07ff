"""The two commands that reach nodes by SSH: with stand-ins that record their arguments, and with a real server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import ports
from tests.cluster import lab

NOTE = """#!{python}
import sys
with open("{notes}", "a") as file:
    print(*sys.argv[1:], sep="|", file=file)
host = next(word for word in sys.argv if word.startswith("root@"))
print("said by", host)
print("again")
sys.exit(3 if "node2" in host else 0)
"""
COPY = """#!{python}
import os, re, sys
words = [re.sub(r"^root@(node[0-9]+):/", r"root@\\1:{folder}/\\1/", word) for word in sys.argv[1:]]
os.execv("{scp}", ["scp", "-F", "{folder}/client.conf", *words])
"""
SERVER = "/usr/sbin/sshd"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return where the stand-ins for ssh and scp, first on PATH, write their arguments."""
    file = tmp_path / "notes"
    file.touch()
    for name in ("ssh", "scp"):
        (tmp_path / name).write_text(NOTE.format(python=sys.executable, notes=file))
        (tmp_path / name).chmod(0o755)
    return file


def _path(folder: Path) -> str:
    return f"{folder}:{os.environ['PATH']}"


def test_a_command_runs_on_every_node_and_on_the_master_last(shared: lab.Lab, notes: Path) -> None:
    done = shared.run("gnt-cluster", "command", "ls", "-l", "/a b", PATH=_path(notes.parent), check=False)
    assert done.returncode == 1
    calls = [line.split("|") for line in notes.read_text().splitlines()]
    assert [words[-2:] for words in calls] == [["root@node2", "ls -l /a b"], ["root@node1", "ls -l /a b"]]
    assert all("-oBatchMode=yes" in words for words in calls)
    assert done.stdout.splitlines() == [
        "-" * 48, "node: node2", "said by root@node2", "again", "return code = 3",
        "-" * 48, "node: node1", "said by root@node1", "again", "return code = 0",
    ]  # fmt: skip


def test_options_of_a_command_stand_before_it(shared: lab.Lab, notes: Path) -> None:
    more = {"PATH": _path(notes.parent), "check": False}
    done = shared.run("gnt-cluster", "command", "-M", "--failure-only", "uptime", "-n", "node1", **more)  # type: ignore[arg-type]
    assert "node2: said by root@node2\nnode2: again\n" in done.stdout
    assert "node1" not in done.stdout
    assert notes.read_text().splitlines()[0].endswith("uptime -n node1")
    notes.write_text("")
    shared.run("gnt-cluster", "command", "-n", "node1", "--", "-x", PATH=_path(notes.parent))
    (line,) = notes.read_text().splitlines()
    assert line.endswith("root@node1|-x")


def test_a_file_is_copied_to_all_nodes_but_the_master(shared: lab.Lab, notes: Path, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("content")
    output = shared.refused("gnt-cluster", "copyfile", tmp_path / "none")
    assert "is not a file" in output
    done = shared.run("gnt-cluster", "copyfile", file, PATH=_path(notes.parent), check=False)
    assert done.returncode == 1
    assert f"Copy of file {file} to node node2 failed: said by root@node2:{file}" in done.stderr
    (line,) = notes.read_text().splitlines()
    assert line.endswith(f"|{file}|root@node2:{file}")
    shared.run("gnt-cluster", "copyfile", "-n", "node1", file, PATH=_path(notes.parent))


def test_without_ssh_one_line_says_so(shared: lab.Lab, tmp_path: Path) -> None:
    done = shared.run("gnt-cluster", "command", "true", PATH=str(tmp_path), check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "Failure: cannot run ssh: No such file or directory; install the package openssh-client\n",
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """Run a real SSH server on the loopback; return a folder with an ssh and an scp that lead every node to it.

    All nodes are this machine, so scp puts the files of each below a folder with the name of the node.
    """
    if not os.path.exists(SERVER) or os.getuid() != 0:
        pytest.skip("needs root and openssh-server")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    port = ports.free()
    (tmp_path / "server.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\n"
        f"PidFile none\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nSubsystem sftp internal-sftp\n"
    )
    known = (tmp_path / "host.pub").read_text()
    (tmp_path / "known").write_text("".join(f"[127.0.0.1]:{port} {known}"))
    (tmp_path / "client.conf").write_text(
        f"Host node*\n HostName 127.0.0.1\n Port {port}\n IdentityFile {tmp_path}/user\n"
        f" UserKnownHostsFile {tmp_path}/known\n"
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/client.conf "$@"\n')
    (programs / "scp").write_text(COPY.format(python=sys.executable, scp=shutil.which("scp"), folder=tmp_path))
    for name in ("ssh", "scp"):
        (programs / name).chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen([SERVER, "-D", "-e", "-f", tmp_path / "server.conf"], stderr=subprocess.PIPE, text=True)
    try:
        assert daemon.stderr is not None
        assert "Server listening" in daemon.stderr.readline()
        yield programs
    finally:
        daemon.terminate()
        daemon.wait(lab.TIMEOUT)


@pytest.mark.promise("cluster-10")
def test_commands_and_files_reach_nodes_by_ssh(shared: lab.Lab, server: Path, tmp_path: Path) -> None:
    calls = shared.run("gnt-cluster", "command", "-M", "echo $((6 * 7)); exit 0", PATH=_path(server)).stdout
    assert "node1: 42\n" in calls
    assert "node2: 42\n" in calls
    failed = shared.run("gnt-cluster", "command", "-n", "node2", "exit 7", PATH=_path(server), check=False)
    assert "return code = 7" in failed.stdout
    file, arrived = tmp_path / "copied", Path(f"{tmp_path}/node2{tmp_path}/copied")
    file.write_text("content")
    file.chmod(0o640)
    os.utime(file, (1e9, 1e9))
    arrived.parent.mkdir(parents=True)
    shared.run("gnt-cluster", "copyfile", file, PATH=_path(server))
    status = arrived.stat()
    assert (arrived.read_text(), status.st_mode & 0o777, status.st_mtime) == ("content", 0o640, 1e9)
    assert not (tmp_path / "node1").exists()


def test_a_node_is_reached_at_the_port_that_its_parameters_say(shared: lab.Lab, notes: Path) -> None:
    shared.run("gnt-node", "modify", "--node-parameters", "ssh_port=2222", "node1")
    shared.run("gnt-cluster", "command", "-n", "node1", "true", PATH=_path(notes.parent))
    shared.run("gnt-node", "modify", "--node-parameters=-ssh_port", "node1")
    shared.run("gnt-cluster", "command", "-n", "node1", "true", PATH=_path(notes.parent))
    first, second = (line.split("|") for line in notes.read_text().splitlines())
    assert "-oPort=2222" in first
    assert set(first) - set(second) == {"-oPort=2222"}
