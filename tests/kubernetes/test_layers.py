"""The layers of tests required by the design: unit, integration, end to end."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.real import demonstration

CHECKOUT = Path(__file__).parents[2]
SOURCE = CHECKOUT / "src/gantry"
FOLDERS = ("kubernetes/claims", "kubernetes/api", "kubernetes/controllers")
OF_PARTS = (
    "tests/kubernetes/claims",
    "tests/kubernetes/api",
    "tests/kubernetes/controllers",
    "tests/kubernetes/apiserver/test_webhook.py",
    "tests/daemons/test_kube.py",
    "tests/daemons/test_apiserver.py",
    "tests/daemons/test_binding.py",
    "tests/daemons/test_serve.py",
    "tests/daemons/test_webhook.py",
)
TOO_SLOW = (
    "tests/kubernetes/controllers/test_many.py",
    "tests/kubernetes/claims/test_bad_input.py::test_objects_of_any_shape_end_no_controller_and_let_none_spin",
)
"""They cost as much as all others while calls are recorded, so each function has to be called by another one."""

END_TO_END = ("tests/kubernetes/contract", "tests/kubernetes/test_kubectl.py", "tests/kubernetes/test_clients.py",
              "tests/docs/test_snippets.py")  # fmt: skip


def functions(path: Path) -> Iterator[str]:
    """Yield the qualified name of each function of a module, those left out that are declared only."""
    yield from _inside(ast.parse(path.read_text()).body, "")


def _inside(body: Sequence[ast.stmt], within: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _inside(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_declared(node):
            yield f"{within}{node.name}"


def _is_declared(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def run(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "", "-p", "no:cacheprovider", *arguments],
        cwd=CHECKOUT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    # Whether the tests pass is checked where they run themselves.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.real
@demonstration.MINUTES
@pytest.mark.promise("claims-54")
def test_every_function_that_serves_claims_is_called_by_a_test(tmp_path: Path) -> None:
    note = tmp_path / "calls"
    of = ":".join(str(SOURCE / folder) for folder in FOLDERS)
    left_out = [f"--deselect={test}" for test in TOO_SLOW]
    run("-p", "tests.kubernetes.calls", *OF_PARTS, *left_out, CALLS_OF=of, CALLS_TO=str(note))
    called = set(note.read_text().splitlines())
    paths = [path for folder in FOLDERS for path in sorted((SOURCE / folder).glob("*.py"))]
    covered = [f"{path}:{name}" for path in paths for name in functions(path)]
    assert len(covered) > 300
    assert [covered_name.removeprefix(f"{SOURCE}/") for covered_name in covered if covered_name not in called] == []


@pytest.mark.slow
@pytest.mark.promise("claims-54")
@pytest.mark.parametrize("tests", END_TO_END)
def test_there_are_tests_of_the_programs_from_end_to_end(tests: str) -> None:
    assert re.search(r"test_\w+\.py: [1-9]", run("--collect-only", tests))
