"""Somebody who types the commands of a page into shells on the nodes of a demonstration, without a word replaced."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.docs import pages
from tests.real import demonstration

LOOKS = re.compile(r"(ls|cat|grep|tail|ping|curl) |gnt-instance list |gnt-node list |gnt-job list ")
"""Commands that a person repeats until they show what the page says: other nodes, guests and daemons follow later."""

TIMEOUT_SECONDS = 120.0


class PageError(AssertionError):
    """A command did something else than its page says."""


class Typist:
    """Shells of root on the nodes, each opened at its first command; variables and background jobs stay in a shell."""

    def __init__(self, demo: demonstration.Demo, folder: Path, programs: Path) -> None:
        self._demo = demo
        self._folder = folder
        self._path = f"{os.environ['PATH']}:{programs}"
        self._shells: dict[int, subprocess.Popen[str]] = {}

    def type(self, page: Path) -> None:
        """Carry out the steps of a page in order; PageError at the first one that differs."""
        for step in pages.steps(page):
            if isinstance(step, pages.File):
                self._write(step)
                continue
            for node in (1, 2, 3) if step.node == pages.ALL else (step.node,):
                self._repeat(step, node)

    def _write(self, step: pages.File) -> None:
        source = self._folder / "text"
        source.write_text(step.text)
        mode, path = "755" if step.text.startswith("#!") else "644", step.path
        # The shell expands a path that begins with ~.
        self._do(1, f"mkdir -p $(dirname {path}) && cp {shlex.quote(str(source))} {path} && chmod {mode} {path}")

    def _repeat(self, step: pages.Command, node: int) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            code, printed = self._do(node, step.text)
            if bool(code) == step.fails and (not step.shown or pages.matches(step.shown, printed)):
                return
            if not LOOKS.match(step.text) or time.monotonic() > deadline:
                raise PageError(
                    f"line {step.line}, node{node}: {step.text}\nexit code {code}\n"
                    f"--- shown\n{step.shown}\n--- printed\n{printed}"
                )
            time.sleep(0.5)

    def _do(self, node: int, text: str) -> tuple[int, str]:
        """Run a command in the node's shell; return its exit code and what it printed."""
        command, out, err = (self._folder / f"{name}{node}" for name in ("command", "out", "err"))
        command.write_text(f"{text}\n")
        shell = self._shell(node)
        assert shell.stdin
        assert shell.stdout
        # A process in the background keeps its output, so each command has files of its own.
        shell.stdin.write(f"rm -f {out} {err}\n. {command} >{out} 2>{err} </dev/null; echo $?\n")
        shell.stdin.flush()
        answer = shell.stdout.readline()
        if not answer:
            raise PageError(f"the shell on node{node} ended after: {text}")
        return int(answer), out.read_text() + err.read_text()

    def _shell(self, node: int) -> subprocess.Popen[str]:
        if node not in self._shells:
            where = {"DEMO_DIR": self._demo.folder, "DEMO_PREFIX": self._demo.prefix, "PATH": self._path}
            environment = {**os.environ, **where}
            self._shells[node] = subprocess.Popen(
                [pages.CHECKOUT / "demo/shell", str(node), "bash"],
                env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
        return self._shells[node]

    def close(self) -> None:
        """Close the shells, and end what was started in them and still runs."""
        for shell in self._shells.values():
            assert shell.stdin
            shell.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
            shell.wait()


@contextlib.contextmanager
def at(demo: demonstration.Demo, programs: Path) -> Iterator[Typist]:
    """Sit down at a demonstration, with the programs of a further folder; leave no shell."""
    with tempfile.TemporaryDirectory(prefix="gt-typist-") as folder:
        typist = Typist(demo, Path(folder), programs)
        try:
            yield typist
        finally:
            typist.close()
