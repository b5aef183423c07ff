"""The commands of some pages do what they say, in a laboratory without machines; tests/real/test_pages.py types all."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import leftovers, ports
from tests.cluster import lab
from tests.docs import pages

from gantry.cli import errors, main
from gantry.cli.framework import command

HOW_TO = sorted(page for page in (pages.DOCS / "how-to").glob("*.md") if page.name != "README.md")
TUTORIAL = pages.DOCS / "tutorial/first-cluster.md"
NETWORKS = pages.DOCS / "tutorial/networks.md"
CLAIMS = pages.DOCS / "tutorial/claims.md"
JOINED = {"nodes": 3}
"""How many nodes the cluster has when a page begins; two where nothing is said."""

GATE = ("address-records", "remote-api")
"""The pages whose commands run in the gate: each page needs a cluster of its own, which takes seconds."""

LOOKS = re.compile(r"(on \d )?(ls|cat|grep|tail|ping) |gnt-instance list |kubectl (get|describe) ")
"""Commands that are repeated until they show what the page says: other nodes, or a daemon that starts, follow later."""

NOTICE = re.compile(r"^\S+/\.command: line \d+: +\d+ (Killed|Terminated) .*\n", re.MULTILINE)
"""What the shell writes about a process in the background that was killed, whenever it notices the end."""

FOLDERS = {
    "/var/lib/gantry": "lib",
    "/run/gantry": "run",
    "/var/log/gantry": "log",
    "/etc/gantry": "etc",
    "/srv/gantry": "srv",
}

# The machines are folders: any bridge is there, no accelerator, scp copies from one folder to the other, and ssh runs a
# command with those of another machine, which does not have the machine's name.
OF_MACHINES = {
    "ip": """echo '[{"ifname": "br0", "linkinfo": {"info_kind": "bridge"}}]' """,
    "qemu-system-x86_64": "echo QEMU 7.2",
    "timeout": "exit 1",
}
SCP = """words=()
for word in "$@"; do
    case $word in
        node[0-9]:*) machine=${word%%:*} word=${word#*:}; words+=("${word/\\/node1\\///$machine/}") ;;
        *) words+=("$word") ;;
    esac
done
exec cp "${words[@]}"
"""
SSH = """machine=$1; shift
export GANTRY_ROOT="${GANTRY_ROOT/%node1/$machine}"
sed "s/gantry-node join/& --name $machine/" | "$@"
"""


@dataclass
class Environment:
    """The environment of commands: replacements for words of a page, by node, and a scratch folder."""

    scratch: Path
    stands_for: dict[int, dict[str, str]]
    variables: dict[int, dict[str, str]]
    path: str

    def run(self, steps: Iterable[pages.File | pages.Command]) -> None:
        """Do the steps one after the other, the commands in one shell."""
        environment = {**os.environ, "HOME": str(self.scratch), "PATH": self.path}
        with subprocess.Popen(
            ["bash"], cwd=self.scratch, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as shell:  # fmt: skip
            try:
                for step in steps:
                    if isinstance(step, pages.File):
                        self._write(step)
                    else:
                        self._check(shell, step)
            finally:
                # After a failure, processes that the page started may still run.
                os.killpg(shell.pid, signal.SIGTERM)

    def _write(self, step: pages.File) -> None:
        path = self.scratch / replaced(step.path, self.stands_for[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)
        path.chmod(0o755 if step.text.startswith("#!") else 0o644)

    def _check(self, shell: subprocess.Popen[str], step: pages.Command) -> None:
        deadline = time.monotonic() + lab.TIMEOUT
        while True:
            code, printed = self._do(shell, step)
            good = bool(code) == step.fails and (not step.shown or pages.matches(step.shown, printed))
            if good or not LOOKS.match(step.text) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        message = f"line {step.line}: {step.text}\nexit code {code}\n--- shown\n{step.shown}\n--- printed\n{printed}"
        assert good, message

    def _do(self, shell: subprocess.Popen[str], step: pages.Command) -> tuple[int, str]:
        """Run a command; return its exit code and its output, in the words of the page."""
        words = self.stands_for[step.node]
        command, out, err = (self.scratch / f".{name}" for name in ("command", "out", "err"))
        command.write_text(replaced(step.text, words) + "\n")
        exports = [f"export {name}={value}" for name, value in self.variables.get(step.node, {}).items()]
        # A process in the background keeps its output, so that each command has files of its own.
        saved = f". {command} >{out} 2>{err} </dev/null; echo $?"
        assert shell.stdin
        assert shell.stdout
        shell.stdin.write("\n".join([f"rm -f {out} {err}", *exports, saved]) + "\n")
        shell.stdin.flush()
        code = int(shell.stdout.readline())
        printed = out.read_text() + NOTICE.sub("", err.read_text())
        return code, replaced(printed, {value: word for word, value in words.items()})


def replaced(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _programs(folder: Path, scripts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    """Create a cluster as the page of the test expects, and beside it as many machines as the page names."""
    page: Path = request.getfixturevalue("page")
    with lab.lab() as cluster_lab:
        machines, hand = cluster_lab.folder / "machines", cluster_lab.folder / "hand"
        _programs(machines, OF_MACHINES)
        _programs(hand, {"scp": SCP, "ssh": SSH})
        usual = os.environ["PATH"]
        monkeypatch.setenv("PATH", str(machines))
        cluster_lab.init("--enabled-hypervisors", "fake,kvm")
        for _ in range(JOINED.get(page.stem, 2) - 1):
            cluster_lab.add_node()
        while len(cluster_lab.nodes) < _machines(page):
            cluster_lab.add_machine()
        monkeypatch.setenv("PATH", usual)
        remote_port = ports.free()
        words = {
            "gantry-rapi --bind 127.0.0.1": f"gantry-rapi --bind 127.0.0.1 --port {remote_port}",
            "127.0.0.1:5080": f"127.0.0.1:{remote_port}",
        } | {
            f"--primary-ip 10.99.0.{i}": f"--primary-ip 127.0.0.1 --port {n.port}"
            for i, n in enumerate(cluster_lab.nodes, 1)
        }
        scratch = cluster_lab.folder / "home"
        scratch.mkdir()
        yield Environment(
            scratch,
            {
                i: words | {at: str(n.root / name) for at, name in FOLDERS.items()}
                for i, n in enumerate(cluster_lab.nodes, 1)
            },
            {i: {"GANTRY_ROOT": str(n.root)} for i, n in enumerate(cluster_lab.nodes, 1)},
            f"{hand}:{lab.BIN}:{usual}",
        )


def _machines(page: Path) -> int:
    """Return the highest number of a machine that a page names."""
    return max(map(int, re.findall(r"\b(?:node|10\.99\.0\.)(\d)\b", page.read_text())), default=1)


@pytest.mark.parametrize("page", [page for page in HOW_TO if page.stem in GATE], ids=lambda page: page.stem)
def test_the_commands_of_a_how_to_page_do_what_it_says(page: Path, cluster: Environment) -> None:
    cluster.run(pages.steps(page))


@pytest.mark.parametrize("page", [*HOW_TO, TUTORIAL, NETWORKS, CLAIMS], ids=lambda page: page.stem)
def test_no_command_waits_for_a_time_instead_of_a_condition(page: Path) -> None:
    commands = [step.text for step in pages.steps(page) if isinstance(step, pages.Command)]
    assert [text for text in commands if re.search(r"(?<!do )\bsleep [0-9]", text)] == []


USES = {
    "simple": [
        *(
            r"add --subnet cidr=\d.*,pool lan",
            r"add wire",
            r"add --subnet cidr=2001.*,pool",
            r"connect -N mode=\S+ lan",
        ),
        *(r"--add-reserved-ips \S*,\S*-", r"--net 0:ip=pool,lan"),
    ],
    "advanced": [
        *(
            r"--subnet add:.*dhcp=",
            r"--subnet \S+:modify,cidr=",
            r"--subnet \S+:modify,.*name=",
            r"--subnet \S+:remove",
        ),
        *(r"--pool add:.*name=", r"--pool add:start=", r"--pool remove:", r"--net \S*ip0=\S*,ip1=\S*,ip2="),
        *(r"--net 0:modify,ip1=none", r"--net -1:add,ip0=pool,ip1=", r"--force", r"history .*--address"),
    ],
}
"""What "simple and advanced examples" are to have at least; what a page has is run by the tests above."""


@pytest.mark.promise("networks-84")
@pytest.mark.parametrize("use", [use for uses in USES.values() for use in uses])
def test_every_use_of_networks_has_an_example_that_is_run(use: str) -> None:
    run = [step.text for step in pages.steps(NETWORKS) if isinstance(step, pages.Command)]
    assert [line for line in run if re.search(use, line.replace("\\\n", " "))]


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("kubectl"), reason="this machine has no kubectl")
def test_the_commands_of_the_tutorial_of_claims_do_what_it_says_and_leave_nothing(tmp_path: Path) -> None:
    words = {
        "~/claims": str(tmp_path / "claims"),
        "cd gantry": f"cd {pages.CHECKOUT}",
        "--data kube": f"--data kube --port {ports.free()}",
    }
    Environment(tmp_path, {1: words}, {}, f"{lab.BIN}:{os.environ['PATH']}").run(pages.steps(CLAIMS))
    assert not (tmp_path / "claims").exists()


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="QEMU is not installed")
def test_the_tutorial_leads_to_a_virtual_machine_and_leaves_nothing() -> None:
    folder, prefix = Path(tempfile.mkdtemp(prefix="gt", dir="/tmp")), f"gh{os.getpid() % 100000}x"
    words = {"/tmp/lab": str(folder / "lab"), "first": prefix, "cd gantry": f"cd {pages.CHECKOUT}"}
    try:
        Environment(folder, {1: words}, {}, os.environ["PATH"]).run(pages.steps(TUTORIAL))
        assert not (folder / "lab").exists()
    finally:
        _clean(prefix)
        shutil.rmtree(folder)


def _clean(prefix: str) -> None:
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for space in re.findall(rf"^({prefix}\S+)", spaces, flags=re.MULTILINE):
        leftovers.end_space(space)
    subprocess.run([pages.CHECKOUT / "demo/net.sh", "down", prefix], check=True)


@pytest.mark.parametrize(
    "page", [pages.CHECKOUT / "README.md", TUTORIAL, NETWORKS, CLAIMS, *HOW_TO], ids=lambda page: page.stem
)
def test_every_command_of_a_page_has_options_that_exist(page: Path) -> None:
    for line in pages.typed(page):
        for match in re.finditer(r"\b(gnt-[a-z]+) ([^|;&)]*)", re.sub(r"\d?[<>][^\s;]*", "", line)):
            program, words = match[1], shlex.split(match[2].strip(), comments=True)
            known = {name: entry for entry in main.commands(program)[0] for name in (entry.name, *entry.aliases)}
            count = 2 if " ".join(words[:2]) in known else 1
            name = " ".join(words[:count])
            assert name in known, line
            try:
                command.parse(program, known[name], words=words[count:])
            except errors.CommandError as error:
                pytest.fail(f"{line}: {error.text()}")
