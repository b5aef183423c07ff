"""Wrong command lines of daemons and tools."""

import argparse
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.reference import programs

from gantry import option_parser

SCRIPTS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
PROGRAMS = {name: entry for name, entry in SCRIPTS.items() if not entry.startswith("gantry.cli.")}


def _refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *words = line.split()
    parser = programs.parser_of(PROGRAMS[program])
    with pytest.raises(SystemExit) as end:
        parser.parse_args(words)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(program)
    assert error.count("\n") == 1
    return error


def _misspelled(word: str) -> str:
    """Return a name without a letter in its middle: neither another name nor the beginning of one."""
    return word[: len(word) // 2] + word[len(word) // 2 + 1 :]


def _parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parser of a program, and that of each command with its name."""
    yield "", parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _misspellings() -> Iterator[tuple[str, str]]:
    """Yield command lines that end with a misspelled option, command or value, each with its right name."""
    for program, entry in PROGRAMS.items():
        for command, parser in _parsers(programs.parser_of(entry)):
            for action in parser._actions:
                for option in action.option_strings:
                    if option.startswith("--"):
                        yield f"{program} {command} {_misspelled(option)}", option
                for choice in action.choices or ():
                    yield f"{program} {command} {' '.join(action.option_strings)} {_misspelled(choice)}", choice


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_daemon_and_tool_has_this_parser(name: str) -> None:
    assert isinstance(programs.parser_of(PROGRAMS[name]), option_parser.Parser)


@pytest.mark.parametrize(("line", "name"), list(_misspellings()))
def test_a_misspelled_option_command_or_value_is_one_line_with_the_right_one(
    line: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _refused(line, capsys).endswith(f"; did you mean {name}?\n")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("gantry-ipam chekc", "did you mean check?"),
        ("gantry-is-master -root x", "unrecognized arguments: -root x; did you mean --root?"),
        ("gantry-kube serv", "did you mean serve?"),
        ("gantry-kube controlers", "did you mean controllers?"),
        ("gantry-kube serve --dta x", "unrecognized arguments: --dta x; did you mean --data?"),
        ("gantry-kube controllers --kubecofig=x", "did you mean --kubeconfig?"),
        ("gantry-masterd --dbug", "did you mean --debug?"),
        ("gantry-masterd recovr", "did you mean recover?"),
        (
            "gantry-neutron-ipam --confg-file x check",
            "unrecognized arguments: --confg-file; did you mean --config-file?",
        ),
        ("gantry-node docter", "did you mean doctor?"),
        ("gantry-noded --nmae x", "did you mean --name?"),
        ("gantry-rapi --prot 1", "unrecognized arguments: --prot 1; did you mean --port?"),
        ("gantry-simulate --sede 7", "unrecognized arguments: --sede; did you mean --seed?"),
        ("gantry-simulate --seed 1 --schedule sleping-node", "did you mean sleeping-node?"),
        ("gantry-watcher --rot x", "did you mean --root?"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_nearest_name(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _refused(line, capsys).endswith(f"{hint}\n")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("gantry-watcher --frobnicate", "unrecognized arguments: --frobnicate; see gantry-watcher --help"),
        ("gantry-rapi --port x", "'x' is not a port: write a number up to 65535; see gantry-rapi --help"),
        ("gantry-kube", "the following arguments are required: COMMAND; see gantry-kube --help"),
        ("gantry-ipam check", "the following arguments are required: URL; see gantry-ipam check --help"),
        ("gantry-ipam check URL --version", "unrecognized arguments: --version; see gantry-ipam --help"),
        ("gantry-rapi -blocalhost --port x", "'x' is not a port: write a number up to 65535; see gantry-rapi --help"),
        ("gantry-simulate --proc -10 --seeds 3-1", "the range 3-1 is empty; see gantry-simulate --help"),
        ("gantry-simulate --seeds 3-1 -- --sede", "the range 3-1 is empty; see gantry-simulate --help"),
    ],
)
def test_without_a_similar_name_the_line_refers_to_the_help(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _refused(line, capsys).endswith(f"{hint}\n")
