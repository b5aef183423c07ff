"""Runs the unit tests nearest to what changed: ``make quick``, ``make quick BASE=main``.

Changed is what differs from the commit ``BASE`` (HEAD if none is named), and what git does not know yet. A changed
test file is chosen itself. For a changed module, test files are chosen by their distance in the graph of imports,
product and tests together: first those that import it directly, then those that import such a module, and so on. A
file that is not Python chooses the test files that contain its name. The nearest ``LIMIT`` files run, all changed test
files among them, so that a change to a base module does not choose everything; the rest is for ``make test``.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 12


def changed(root: Path, base: str) -> list[str]:
    """Return the paths, relative to the checkout, that differ from a commit or are not in git."""
    commands = (["diff", "--name-only", "--relative", base], ["ls-files", "--others", "--exclude-standard"])
    outputs = [
        subprocess.run(["git", *c], cwd=root, check=True, capture_output=True, text=True).stdout for c in commands
    ]
    return sorted({path for output in outputs for path in output.splitlines()})


def module_of(path: str) -> str:
    """Return the dotted name of a module of the product or of the tests.

    >>> module_of("src/gantry/jobs/queue.py"), module_of("tests/jobs/__init__.py")
    ('gantry.jobs.queue', 'tests.jobs')
    """
    return ".".join(PurePosixPath(path).with_suffix("").parts).removeprefix("src.").removesuffix(".__init__")


def importers(graph: dict[str, set[str]], module: str) -> dict[str, int]:
    """Return the modules that import a module, directly or through others, each with its distance; itself is at 0."""
    distances, layer = {module: 0}, {module}
    while layer:
        layer = {name for near in layer for name in graph.get(near, ())} - distances.keys()
        distances |= dict.fromkeys(layer, max(distances.values()) + 1)
    return distances


def nearest(paths: Iterable[str], tests: dict[str, str], graph: dict[str, set[str]], limit: int = LIMIT) -> list[str]:
    """Return the test files to run for changed paths, nearest first.

    ``tests`` are the sources of the test files by path; ``graph`` has the direct importers of each module.
    """
    modules = {module_of(path): path for path in tests}
    distances: dict[str, int] = {}
    for path in paths:
        if path.endswith(".py"):
            near = {modules[name]: far for name, far in importers(graph, module_of(path)).items() if name in modules}
        else:
            near = {test: 1 for test, source in tests.items() if PurePosixPath(path).name in source}
        for test, far in near.items():
            distances[test] = min(far, distances.get(test, far))
    own = [test for test in distances if distances[test] == 0]
    return sorted(distances, key=lambda test: (distances[test], test))[: max(limit, len(own))]


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return the direct importers of each module of the product and of the tests."""
    sys.path[:0] = [str(root), str(root / "src")]
    graph = grimp.build_graph("gantry", "tests", cache_dir=None)
    return {name: graph.find_modules_that_directly_import(name) for name in graph.modules}


def main() -> int:
    """Run them; the exit status is pytest's, and 0 when no test is chosen."""
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    paths = [path for path in changed(ROOT, base) if not path.endswith(".py") or (ROOT / path).exists()]
    files = nearest(paths, tests, import_graph(ROOT))
    print(f"{len(paths)} files changed since {base}; running {len(files)} test files", *files, sep="\n  ")
    if not files:
        return 0
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", *files]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status


if __name__ == "__main__":
    sys.exit(main())
