"""What may be imported where: libraries for protocols at the edge, and no framework anywhere."""

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gantry"
LOGIC = ("address", "ipam", "jobs", "model", "operations", "rpc", "state")
EDGE = ("cli", "daemons", "doors", "kubernetes", "node", "sim")
PROTOCOLS = {"aiohttp", "http", "requests", "socket", "socketserver", "ssl", "twisted", "urllib"}
"""Libraries that speak a protocol. ``ssl`` names the type of a context, and ``urllib.parse`` takes a URL apart."""
TYPES_ONLY = {"ssl", "urllib"}
FRAMEWORKS = {"celery", "django", "fastapi", "flask", "gevent", "litestar", "starlette", "tornado", "trio", "twisted"}
BLOCKED = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiohttp", "twisted", "requests", "http"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
for room in {rooms}:
    package = importlib.import_module("gantry." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # It is loaded by neutron-server alone, which brings what it imports.
        if not module.name.startswith("gantry.ipam.neutron."):
            importlib.import_module(module.name)
"""


@functools.cache
def _names(file: Path) -> Sequence[str]:
    """Return what a module imports, also within functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return names


def _imports(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each module of a folder, and what it imports."""
    for file in sorted(folder.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        yield from ((module, name) for name in _names(file))


@pytest.mark.promise("cluster-12")
def test_what_decides_neither_speaks_a_protocol_nor_knows_who_does() -> None:
    for package in LOGIC:
        for module, name in _imports(SOURCE / package):
            if not module.startswith("gantry.ipam.neutron."):
                assert name.partition(".")[0] not in PROTOCOLS - TYPES_ONLY, f"{module} imports {name}"
                edge = [f"gantry.{name_of_edge}" for name_of_edge in EDGE]
                assert ".".join(name.split(".")[:2]) not in edge, f"{module} imports {name}"


@pytest.mark.promise("cluster-12")
@pytest.mark.slow
def test_one_package_speaks_http_and_all_others_hand_it_requests() -> None:
    users = {module for module, name in _imports(SOURCE) if name.partition(".")[0] == "aiohttp"}
    names = ("http", "http_messages", "http_server")
    assert users == {f"gantry.runtime.real.{name}" for name in names}


@pytest.mark.promise("cluster-12")
def test_what_decides_runs_without_a_protocol_library() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED.format(rooms=LOGIC)], check=False)
    assert done.returncode == 0


@pytest.mark.promise("cluster-12")
def test_no_framework_is_needed_or_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [each for each in project["dependencies"] if each.lower().startswith(tuple(FRAMEWORKS))]
    assert not [(module, name) for module, name in _imports(SOURCE) if name.partition(".")[0] in FRAMEWORKS]
    daemons = f"""
import sys, gantry.daemons.master, gantry.daemons.node, gantry.daemons.remote
print([name for name in sys.modules if name in {FRAMEWORKS}])
"""
    done = subprocess.run([sys.executable, "-c", daemons], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
