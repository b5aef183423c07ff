"""The configuration files of a machine: a commented file for each daemon, and the reference page of all of them.

Both are made from the parsers of the daemons' command lines. The files are in deploy/etc; packages install them.
"""

import argparse
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from gantry.daemons import kube, node, remote, watcher
from gantry.daemons.options import config_file, master_options
from tools.reference import page

FOLDER = Path(__file__).parents[2] / "deploy/etc"

PROGRAMS = {
    program.file: program
    for program in (
        node.CONFIGURATION,
        master_options.CONFIGURATION,
        remote.CONFIGURATION,
        watcher.CONFIGURATION,
        kube.CONFIGURATION,
    )
}
"""The programs by the names of their files."""

WIDTH = 100

ABOUT = """
The files in `/etc/gantry` that belong to one machine, in TOML. A key is the long form of an option of the daemon
without its dashes. The command line takes precedence over the file, the file over the defaults; a missing file is like
an empty one.
[How to change them](../how-to/configuration.md) explains checks and reloads.

Settings marked *reload* take effect when the daemon gets SIGHUP, the others when it restarts.
"""


def example(name: str) -> str:
    """Return a file that states each key with its meaning and its default, all commented out."""
    program = PROGRAMS[name]
    lines = [
        f"# /etc/gantry/{name}: settings of {program.name} on this machine.",
        "#",
        "# Each value below is the default. To change one, remove the '#' before its key. An option of the",
        f"# command line takes precedence. `{program.name} --help` describes the same options.",
        "#",
        "# Check the file with `gantry-node --check`. Settings marked (reload) take effect when the daemon",
        "# gets SIGHUP, the others when it restarts.",
    ]
    for table, options in config_file.tables(program, program.command_line()).items():
        lines += ["", f"[{table}]"] if table else []
        for key, action in options.items():
            lines += ["", *_comment(_text(action) + (" (reload)" if key in program.live else "") + ".")]
            lines += [f"#{key} = {_default(action)}"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False, break_long_words=False))


def _text(action: argparse.Action) -> str:
    """Return the help of an option, without the default that it may state, and with its choices."""
    text = (action.help or "") % vars(action)
    text = re.sub(r" \(default: (?P<default>[^()]*)\)", _explained(action), text).replace(" (default)", "")
    text += f"; one of {', '.join(map(str, action.choices))}" if action.choices else ""
    return text[:1].upper() + text[1:]


def _explained(action: argparse.Action) -> str:
    """Return the replacement of ``(default: ...)``, which stays if a file has an empty text instead."""
    return r" (empty: \g<default>)" if action.default == "" else ""


def _default(action: argparse.Action) -> str:
    value = action.default
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _type(action: argparse.Action) -> str:
    if config_file.is_flag(action):
        return "true or false"
    if isinstance(action.default, int):
        return "whole number"
    return "number" if isinstance(action.default, float) else "text"


def render() -> str:
    """Return the reference page."""
    lines: list[str] = []
    for name, program in PROGRAMS.items():
        lines += [f"## {name}", "", f"Of [{program.name}](commands/{program.name}.md).", ""]
        for table, options in config_file.tables(program, program.command_line()).items():
            lines += [f"### [{table}]", ""] if table else []
            lines += page.table(("key", "type", "default", ""), (_row(program, *item) for item in options.items()))
    return page.render("Configuration files", ABOUT, lines)


def _row(program: config_file.Program, key: str, action: argparse.Action) -> tuple[str, str, str, str]:
    text = _text(action) + ("; *reload*" if key in program.live else "")
    return page.code(key), _type(action), page.code(_default(action)), text
