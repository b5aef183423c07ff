"""How the kind of the nodes is chosen, without booting any."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.real.nodes.hardware import UnavailableError, choice

CPUINFO = """\
processor\t: 0
model name\t: AMD EPYC
cpu MHz\t\t: {speed}
flags\t\t: fpu {flag}

processor\t: 1
model name\t: AMD EPYC
flags\t\t: fpu
"""


def not_asked() -> bool:
    raise AssertionError("User-Mode Linux was probed")


def answering(*outputs: str) -> Callable[[], str]:
    """Return a probe with these outputs, one for each call."""
    remaining = iter(outputs)
    return lambda: next(remaining)


@pytest.mark.parametrize("kind", ["uml", "qemu"])
def test_a_forced_kind_is_taken_without_a_probe(kind: str) -> None:
    assert choice.choose(kind, not_asked) == kind


@pytest.mark.parametrize(("runs", "kind"), [(True, "uml"), (False, "qemu")])
def test_without_a_forced_kind_user_mode_linux_is_taken_where_it_runs(runs: bool, kind: str) -> None:
    assert choice.choose("", lambda: runs) == kind


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnavailableError, match="GANTRY_NODES=xen: there is no such kind of node, use uml or qemu"):
        choice.choose("xen", not_asked)


@pytest.mark.parametrize(
    ("output", "runs"),
    [
        ("reboot\nit runs\nreboot: System halted\n", True),
        ("userspace - ptrace set fp regs failed, errno = 14\n", False),
        ("", False),
    ],
)
def test_the_answer_of_a_probe_is_kept(tmp_path: Path, output: str, runs: bool) -> None:
    answer = tmp_path / "uml-runs"
    probe = answering(output)
    assert [choice.remembered(answer, probe) for _ in range(2)] == [runs, runs]
    assert [path.name for path in tmp_path.iterdir()] == ["uml-runs"]


def test_a_processor_is_known_by_its_model_and_features_and_not_by_its_speed() -> None:
    here = choice.processor(CPUINFO.format(speed=2000, flag="avx"))
    assert here.splitlines() == ["model name\t: AMD EPYC", "flags\t\t: fpu avx"]
    assert here == choice.processor(CPUINFO.format(speed=3000, flag="avx"))
    assert here != choice.processor(CPUINFO.format(speed=2000, flag="amx_tile"))
