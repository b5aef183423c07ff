"""Help texts and completion scripts against golden files; ``make golden`` rewrites them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gantry.cli import completion, main
from gantry.cli.framework import command

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("program", main.PROGRAMS)
def test_help_is_as_it_was_written_down(program: str) -> None:
    known, about = main.commands(program)
    pages = [command.usage(program, known, about=about), *(command.help_text(program, each) for each in known)]
    compare(f"{program}.txt", ("\n\n" + "-" * 80 + "\n\n").join(pages) + "\n")


@pytest.mark.parametrize("program", main.PROGRAMS)
def test_no_line_of_a_help_text_is_wider_than_a_terminal(program: str) -> None:
    known, about = main.commands(program)
    pages = [command.usage(program, known, about=about), *(command.help_text(program, each) for each in known)]
    assert [line for page in pages for line in page.splitlines() if len(line) > command.WIDTH] == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_is_as_it_was_written_down(shell: str) -> None:
    compare(f"completion.{shell}", completion.SHELLS[shell]() + "\n")


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_shells_understand_their_completion(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(completion.SHELLS[shell]())
    subprocess.run([program, "-n", tmp_path / "script"], check=True)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gnt-instance reb", "reboot"),
        ("gnt-instance reboot --type s", "soft"),
        ("gnt-instance remove --ig", "--ignore-failures"),
        ("gnt-instance add -n n", "node1 node2"),
        ("gnt-node remove n", "node1 node2"),
        ("gnt-node list --format j", "json"),
        ("gnt-cluster init --port 1", ""),
        ("gantry seg", "segment"),
        ("gantry segment r", "range"),
        ("gantry segment range cr", "create"),
        ("gantry segment range list --unav", "--unavailable"),
        ("gantry segment range delete u", "u1 u2"),
        ("gnt-instance add -t d", "diskless drbd"),
        ("gnt-instance modify --disk-template sh", "sharedfile"),
        ("gnt-node list -o n", "node1 node2"),
        ("gnt-node list -o name,n", "name,node1 name,node2"),
        ("gnt-node list --output +n", "+node1 +node2"),
        ("gnt-node list-fields n", "node1 node2"),
        ("gantry completion b", "bash"),
        ("gnt-instance add -B v", "vcpus="),
        ("gnt-network connect -N l", "link="),
        ("gnt-node modify --node-parameters ssh", "ssh_port="),
        ("gnt-instance add -H k", "kvm:"),
        ("gnt-instance modify -H kernel_p", "kernel_path="),
    ],
)
def test_bash_completes(words: str, offered: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(completion.bash())
    last = len(words.split()) - 1
    lines = [
        f"source {tmp_path}/script",
        "gnt-node() { echo node1; echo node2; }",
        "gantry() { echo u1; echo u2; }",
        f"COMP_WORDS=({words}); COMP_CWORD={last}; _gantry",
        'echo "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (offered, "")


def test_what_an_option_completes_is_known() -> None:
    for program in main.PROGRAMS:
        for subcommand in main.commands(program)[0]:
            kinds = {option.completes for option in subcommand.options}
            kinds |= {argument.completes for argument in subcommand.arguments}
            assert kinds <= {"", "file", *completion.NAMES}, (program, subcommand.name)


def test_every_option_has_a_help_text_and_names_are_given_once() -> None:
    for program in main.PROGRAMS:
        for subcommand in main.commands(program)[0]:
            options = (*subcommand.options, *command.COMMON)
            names = [name for option in options for name in option.names]
            assert len(names) == len(set(names)), (program, subcommand.name)
            assert all(option.help for option in options)
