import subprocess
import sys
from pathlib import Path

import pytest

from tools import seam


def names(tmp_path: Path, text: str, package: str = "jobs") -> list[str]:
    module = tmp_path / "module.py"
    module.write_text(text)
    return [finding.name for finding in seam.read(module, package)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from time import time as t\nt()", "time.time"),
        ("import time as clock\nclock.monotonic()", "time.monotonic"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as dt\ndt.utcnow()", "datetime.datetime.utcnow"),
        ("from datetime import date\ndate.today()", "datetime.date.today"),
        ("import random\nrandom.choice([1])", "random.choice"),
        ("import secrets\nsecrets.token_bytes(8)", "secrets.token_bytes"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("from uuid import uuid1\nuuid1()", "uuid.uuid1"),
        ("open('x')", "open"),
        ("import io\nio.open('x')", "io.open"),
        ("import os\nos.listdir('x')", "os.listdir"),
        ("from os import unlink as rm\nrm('x')", "os.unlink"),
        ("import os\nos.path.exists('x')", "os.path.exists"),
        ("from os import path as p\np.getsize('x')", "os.path.getsize"),
        ("import os\nos.environ['x']", "os.environ"),
        ("from pathlib import Path\nPath('x')", "pathlib.Path"),
        ("import pathlib\npathlib.Path('x').read_text()", "pathlib.Path"),
        ("import shutil\nshutil.rmtree('x')", "shutil.rmtree"),
        ("import tempfile\ntempfile.mkdtemp()", "tempfile.mkdtemp"),
        ("import socket\nsocket.socket()", "socket.socket"),
        ("import socketserver", "socketserver"),
        ("import subprocess\nsubprocess.run(['x'])", "subprocess.run"),
        ("import asyncio\nasyncio.sleep(1)", "asyncio.sleep"),
        ("from asyncio import open_connection\nopen_connection()", "asyncio.open_connection"),
        ("import asyncio\nasyncio.start_unix_server()", "asyncio.start_unix_server"),
        ("import asyncio\nasyncio.create_subprocess_exec('x')", "asyncio.create_subprocess_exec"),
        ("import asyncio\nasyncio.get_running_loop().run_in_executor(None, f)", ".run_in_executor"),
        ("import http.client\nhttp.client.HTTPConnection('x')", "http.client.HTTPConnection"),
        ("from urllib import request\nrequest.urlopen('x')", "urllib.request.urlopen"),
        ("import threading\nthreading.Thread()", "threading.Thread"),
        ("import multiprocessing", "multiprocessing"),
        (
            "from concurrent import futures\nfutures.ThreadPoolExecutor()",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("import select\nselect.select()", "select.select"),
        ("import fcntl\nfcntl.flock()", "fcntl.flock"),
        ("import signal\nsignal.signal(2, f)", "signal.signal"),
        ("from cryptography import x509", "cryptography.x509"),
        ("def f(context):\n    context.load_cert_chain('x')", "context.load_cert_chain"),
        ("from gantry.runtime import real", "gantry.runtime.real"),
        ("from time import *", "time"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, text: str, name: str) -> None:
    assert any(finding.endswith(name) for finding in names(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.path.join('a', 'b')",
        "from pathlib import PurePosixPath\nPurePosixPath('a').name",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(1), asyncio.TaskGroup():\n        pass",
        "import datetime\ndatetime.datetime.fromtimestamp(0, tz=datetime.UTC)",
        "import uuid\nuuid.UUID('x')",
        "import io\nio.BytesIO()",
        "import ssl\nssl.create_default_context()",
        "import signal\nsignal.SIGTERM",
        "def f(disk, time):\n    disk.open('x')\n    return time.time()",
        "def f(runtime):\n    return runtime.clock.now()",
        "def open(path): ...\n\ndef f():\n    open('x')",
        "from gantry.runtime import interface\n\ndef f(disk: interface.Disk) -> bytes:\n    return disk.read('x')",
    ],
)
def test_what_stays_inside_passes(tmp_path: Path, text: str) -> None:
    assert names(tmp_path, text) == []


def test_an_import_inside_a_function_is_followed_and_ends_with_it(tmp_path: Path) -> None:
    text = "def f():\n    from random import choice as pick\n    pick([1])\n\ndef g(pick):\n    pick([1])\n"
    assert names(tmp_path, text) == ["random.choice", "random.choice"]


def test_a_method_called_open_does_not_hide_the_function(tmp_path: Path) -> None:
    text = "class File:\n    def open(self):\n        return open('x')\n"
    assert names(tmp_path, text) == ["open"]


def test_a_default_is_read_outside_of_its_function(tmp_path: Path) -> None:
    assert names(tmp_path, "def f(open=open):\n    return open\n") == ["open"]


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("cli", "import time, socket, os\ntime.sleep(1)\nsocket.socket()\nos.environ['x']"),
        ("daemons", "import os\nfrom gantry.runtime import real\nos.environ.get('x')\nreal.Runtime()"),
        ("security/contexts.py", "from cryptography import x509\n\ndef f(context):\n    context.load_cert_chain('x')"),
        ("ipam/neutron/settings.py", "import os, random\nos.getpid()\nrandom.randrange(2)"),
        ("ipam/sql/engines.py", "import sqlite3\nsqlite3.connect('x')"),
    ],
)
def test_a_package_may_use_the_names_on_its_list(tmp_path: Path, package: str, text: str) -> None:
    assert names(tmp_path, text, package) == []
    assert names(tmp_path, text, "jobs") != []


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("cli", "import random"),
        ("cli", "import tempfile"),
        ("daemons", "import os\nos.unlink('x')"),
        ("security/contexts.py", "import time"),
        ("ipam/embedded.py", "import os\nos.getpid()"),
    ],
)
def test_a_list_allows_nothing_else(tmp_path: Path, package: str, text: str) -> None:
    assert names(tmp_path, text, package) != []


def test_the_runtime_itself_is_not_read(tmp_path: Path) -> None:
    for package in ("runtime", "jobs"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "clock.py").write_text("import time\n")
    assert [finding.path.parent.name for finding in seam.findings(tmp_path)] == ["jobs"]


def test_a_finding_has_position_name_and_replacement(tmp_path: Path) -> None:
    module = tmp_path / "queue.py"
    module.write_text("import asyncio\n\nasyncio.sleep(1)\n")
    line = str(seam.read(module, "jobs")[0])
    assert line == f"{module}:3: asyncio.sleep: use runtime.clock.sleep, or asyncio.timeout"


@pytest.mark.parametrize(("text", "code"), [("import time\n", 1), ("import asyncio\n", 0)])
def test_the_exit_code_is_1_if_there_are_findings(tmp_path: Path, text: str, code: int) -> None:
    tool = tmp_path / "tools" / "seam.py"
    tool.parent.mkdir()
    tool.write_text(Path(seam.__file__).read_text())
    package = tmp_path / "src" / "gantry" / "jobs"
    package.mkdir(parents=True)
    (package / "queue.py").write_text(text)
    run = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (code, "")
    assert run.stdout == ("src/gantry/jobs/queue.py:1: time: use runtime.clock\n" if code else "")
