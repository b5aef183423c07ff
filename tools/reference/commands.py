"""The pages of the programs: one for each script of the package, and their index.

The programs that ``gantry.cli`` declares have a table of commands; ``programs`` renders the others.
"""

import functools
import inspect
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gantry.cli import main
from gantry.cli.framework import command, ganeti
from tools.reference import page, programs

SCRIPTS: dict[str, str] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "scripts"
]
"""Name of each program to its entry point."""

INDEX = """
The `gnt-*` programs and `gantry` have commands, as in `gnt-instance list`. `PROGRAM --help` lists the commands of a
program, `PROGRAM COMMAND --help` the options of a command, and `PROGRAM --version` prints the version. Run them on the
master node; they reach the master daemon through its socket. Their ends are on the page [Exit codes](../exit-codes.md).
"""

CONVENTIONS = """
## Conventions

| | |
|---|---|
| `GANTRY_ROOT` | the folder that contains all files, instead of the [system's folders](../files.md) |
| `GNT_INSTANCE_LIST`, `GNT_NODE_LIST`, ... | arguments added to every run of that list command, as in `-o +ip` |
| `0:key=value,...` | a device; a backslash before a comma makes it part of the value |
| sizes | MiB, or with a unit: `512m`, `10g`, `1t` |

Every command takes these options:
"""


def pages() -> dict[str, Callable[[], str]]:
    """Return the path of each page and the function that renders it."""
    rendered = {f"commands/{name}.md": functools.partial(_program, name) for name in SCRIPTS}
    return {"commands/README.md": _index, **rendered}


def _program(name: str) -> str:
    if name in ganeti.PROGRAMS:
        return page.render(name, _of_ganeti(name), [])
    if name not in main.PROGRAMS:
        return programs.render(name, SCRIPTS[name])
    commands, about = main.commands(name)
    contents = ((f"[{each.name}](#{_anchor(name, each)})", f"{each.help}.") for each in commands)
    lines = page.table(("command", ""), contents)
    for each in commands:
        lines += _command(name, each)
    lines += ["All commands also take the [options of every command](README.md#conventions)."]
    return page.render(name, about, lines)


def _of_ganeti(name: str) -> str:
    return f"Says that Ganeti's {name} does not exist here: {ganeti.PROGRAMS[name]}."


def _anchor(program: str, declared: command.Command) -> str:
    return f"{program} {declared.name}".replace(" ", "-")


def _command(program: str, declared: command.Command) -> list[str]:
    arguments = "".join(f" {argument.usage}" for argument in declared.arguments)
    lines = [
        f"## {program} {declared.name}",
        "",
        f"`{program} {declared.name} [OPTIONS]{arguments}`",
        "",
        f"{declared.help}.",
    ]
    lines += [f"Also: {', '.join(map(page.code, declared.aliases))}."] if declared.aliases else []
    lines += ["", "```text", *inspect.cleandoc(declared.text).splitlines(), "```"] if declared.text else []
    return [*lines, "", *(page.table(("option", ""), _option_rows(declared.options)) if declared.options else [])]


def _option_rows(options: Iterable[command.Option]) -> Iterator[tuple[str, str]]:
    for option in options:
        names = ", ".join(option.names) + (f" {option.metavar}" if option.takes_value else "")
        notes = [f"one of {', '.join(option.choices)}"] if option.choices else []
        notes += ["may be repeated"] if option.repeatable else []
        notes += [f"default {option.default}"] if option.takes_value and isinstance(option.default, str | int) else []
        yield page.code(names), option.help + (f" ({'; '.join(notes)})" if notes else "")


def _index() -> str:
    commands = ((_link(name), main.commands(name)[1]) for name in main.PROGRAMS)
    foreign = ((_link(name), _of_ganeti(name)) for name in ganeti.PROGRAMS)
    known = {*main.PROGRAMS, *ganeti.PROGRAMS}
    daemons = ((_link(name), programs.about(SCRIPTS[name])) for name in SCRIPTS if name not in known)
    lines = page.table(("program", ""), [*commands, *foreign])
    lines += ["## Daemons and tools", "", *page.table(("program", ""), daemons)]
    lines += [*CONVENTIONS.strip().splitlines(), "", *page.table(("option", ""), _option_rows(command.COMMON))]
    return page.render("Commands", INDEX, lines)


def _link(name: str) -> str:
    return f"[{name}]({name}.md)"


def missing() -> Iterator[str]:
    """Yield each command, option and argument without a text."""
    for program in main.PROGRAMS:
        for each in main.commands(program)[0]:
            yield from (f"{program} {each.name}" for _ in range(not each.help))
            yield from (f"{program} {each.name} {option.names[0]}" for option in each.options if not option.help)
    for name, entry in SCRIPTS.items():
        if name not in {*main.PROGRAMS, *ganeti.PROGRAMS}:
            yield from (f"{name} {words}" for words in programs.missing(entry))
