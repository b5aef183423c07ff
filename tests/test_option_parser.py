"""Wrong command lines of daemons."""

import argparse

import pytest

from gantry.daemons import kube, node, node_program, remote, watcher
from gantry.daemons.options import master_options

PROGRAMS = {
    "gantry-kube": kube.command_line,
    "gantry-masterd": master_options.command_line,
    "gantry-node": node_program.command_line,
    "gantry-noded": node.command_line,
    "gantry-rapi": remote.command_line,
    "gantry-watcher": watcher.command_line,
}


def _refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *words = line.split()
    parser: argparse.ArgumentParser = PROGRAMS[program]()
    with pytest.raises(SystemExit) as end:
        parser.parse_args(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("gantry-kube serv", "did you mean serve?"),
        ("gantry-kube controlers", "did you mean controllers?"),
        ("gantry-kube serve --dta x", "unrecognized arguments: --dta x; did you mean --data?"),
        ("gantry-kube controllers --kubecofig=x", "did you mean --kubeconfig?"),
        ("gantry-masterd --dbug", "did you mean --debug?"),
        ("gantry-masterd recovr", "did you mean recover?"),
        ("gantry-node docter", "did you mean doctor?"),
        ("gantry-noded --nmae x", "did you mean --name?"),
        ("gantry-rapi --prot 1", "unrecognized arguments: --prot 1; did you mean --port?"),
        ("gantry-watcher --rot x", "did you mean --root?"),
        ("gantry-watcher --frobnicate", "unrecognized arguments: --frobnicate; see gantry-watcher --help"),
        ("gantry-rapi --port x", "'x' is not a port: write a number up to 65535; see gantry-rapi --help"),
        ("gantry-kube", "the following arguments are required: COMMAND; see gantry-kube --help"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_nearest_name(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = _refused(line, capsys)
    assert error.startswith(f"{line.split()[0]}")
    assert error.count("\n") == 1
    assert error.endswith(f"{hint}\n")
