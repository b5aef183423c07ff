"""Which kind of machine the nodes are: ``uml`` where User-Mode Linux runs, else ``qemu``; GANTRY_NODES forces one.

Whether User-Mode Linux runs depends on its kernel, this machine's kernel and the processor: on an Intel processor with
AMX the one of Debian 12 cannot start any process. So it is booted once with a first process of one line; the answer is
kept in the user's cache, in a file whose name comes from all three.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests import cache
from tests.real.nodes.hardware import Hardware, UnavailableError, qemu, uml

VARIABLE = "GANTRY_NODES"
KINDS: Mapping[str, tuple[type[Hardware], str]] = {
    "uml": (uml.Uml, uml.KERNEL),
    "qemu": (qemu.Qemu, qemu.QEMU),
}
"""Each kind, and the program that it needs."""

INIT = """#!/bin/busybox sh
echo it runs
exec /bin/busybox poweroff -f
"""
RUNS = "it runs"
PROBE_SECONDS = 60
CPUINFO = Path("/proc/cpuinfo")


def is_possible() -> bool:
    """Return whether a program of either kind is installed."""
    return any(shutil.which(program) for _, program in KINDS.values())


@functools.cache
def kind() -> type[Hardware]:
    """Return the kind of this test run, prepared."""
    hardware, program = KINDS[choose(os.environ.get(VARIABLE, ""), runs_uml)]
    if not shutil.which(program):
        raise UnavailableError(f"{program} is not installed: make system")
    hardware.prepare()
    return hardware


def choose(forced: str, runs_uml: Callable[[], bool]) -> str:
    """Return the name of a kind: the forced one, or ``uml`` if it runs; UnavailableError if there is no such kind."""
    if forced and forced not in KINDS:
        raise UnavailableError(f"{VARIABLE}={forced}: there is no such kind of node, use {' or '.join(KINDS)}")
    return forced or ("uml" if runs_uml() else "qemu")


def runs_uml() -> bool:
    """Return whether User-Mode Linux starts processes on this machine."""
    program = shutil.which(uml.KERNEL)
    if program is None:
        return False
    parts = Path(program).read_bytes(), os.uname().release.encode(), processor(CPUINFO.read_text()).encode()
    name = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:12]
    return remembered(cache.folder() / f"uml-runs-{name}", lambda: _probe(program))


def processor(cpuinfo: str) -> str:
    """Return the model and the features of the first processor in a text like /proc/cpuinfo."""
    return "\n".join(re.findall(r"^(?:model name|flags|Features)\s*:.*$", cpuinfo.partition("\n\n")[0], re.MULTILINE))


def remembered(answer: Path, probe: Callable[[], str]) -> bool:
    """Return whether what ``probe`` returned says that it runs; it is called only if the file has no answer yet."""
    with contextlib.suppress(FileNotFoundError):
        return RUNS in answer.read_text()
    output = probe()
    draft = answer.with_name(f"{answer.name}.{os.getpid()}")
    draft.write_text(output)
    draft.rename(answer)
    return RUNS in output


def _probe(program: str) -> str:
    """Boot User-Mode Linux with this machine's files and a first process that ends it; return what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        init = Path(folder) / "init"
        init.write_text(INIT)
        init.chmod(0o755)
        machine = subprocess.Popen(
            [
                program, "mem=128M", "umid=probe", f"uml_dir={folder}/", "rootfstype=hostfs", "rootflags=/", "ro",
                "quiet", "con=null", "con0=null,fd:1", "ssl=null", f"init={init}",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": "/dev/shm"},
        )  # fmt: skip
        try:
            return machine.communicate(timeout=PROBE_SECONDS)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return f"it did not end within {PROBE_SECONDS} s"
        finally:
            # Processes that it started may outlive it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(machine.pid, signal.SIGKILL)
            machine.wait()
