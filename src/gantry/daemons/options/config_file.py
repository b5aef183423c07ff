"""The configuration files of a machine: options of the daemons, in TOML, in the folder ``etc``.

    /etc/gantry/node.toml       gantry-noded
    /etc/gantry/master.toml     gantry-masterd
    /etc/gantry/api.toml        gantry-rapi
    /etc/gantry/watcher.toml    gantry-watcher
    /etc/gantry/kube.toml       gantry-kube, with the tables [controllers] and [serve]

A key is the long form of an option without its dashes: the parser of a daemon's command line also states the keys of
its file, their types and their defaults, so the files, ``--help`` and the reference pages cannot differ. The command
line takes precedence over the file, the file over the defaults. A missing file is like an empty one.

A daemon calls ``load`` when it starts, which ends it if the file has a fault, and then ``Settings.follow``: SIGHUP
reads the file again. A fault is logged then, and the daemon keeps its settings.
"""

import argparse
import asyncio
import difflib
import logging
import os
import re
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gantry.runtime import interface, paths

log = logging.getLogger(__name__)

NEVER_KEYS = frozenset({"help", "version", "root", "check"})
"""Options that no file has: the folder of the files follows from ``--root``."""

Values = Mapping[str, Mapping[str, object]]
"""Values of a file: by table (empty without tables) and by the attribute of the parsed options."""


@dataclass(frozen=True)
class Program:
    """A daemon with a configuration file; ``file`` is its name in the folder ``etc``.

    ``excluded`` are options that are not keys, ``live`` those that a running daemon changes when it reads its file
    again; both by the option's long form without dashes.
    """

    name: str
    file: str
    command_line: Callable[[], argparse.ArgumentParser]
    excluded: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset({"debug"})


class Fault(NamedTuple):
    """A fault of a file; line 0 is the file as a whole."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


class _Statement(NamedTuple):
    """A statement of a TOML document: the line where it begins, its table's name, and its content."""

    line: int
    table: str
    content: Mapping[str, object]


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add ``--check`` to the options of a daemon or of its command."""
    parser.add_argument("--check", action="store_true", help="check the configuration file, then exit")


def key(action: argparse.Action) -> str:
    """Return the key of an option; empty for an argument without dashes."""
    return next((option[2:] for option in action.option_strings if option.startswith("--")), "")


def is_flag(action: argparse.Action) -> bool:
    """Return whether an option has no value on the command line: in a file it is true or false."""
    return action.nargs == 0


def tables(program: Program, parser: argparse.ArgumentParser) -> dict[str, dict[str, argparse.Action]]:
    """Return the options of each table by key; a program without commands has the one table with an empty name."""
    out: dict[str, dict[str, argparse.Action]] = {}
    for name, command in _commands(parser).items():
        actions = {key(action): action for action in command._actions}
        out[name] = {each: action for each, action in actions.items() if each and _is_key(program, each)}
    return out


def _is_key(program: Program, name: str) -> bool:
    return name not in NEVER_KEYS and name not in program.excluded


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {"": parser}


def read(program: Program, path: str, disk: interface.Disk) -> tuple[Values, list[Fault]]:
    """Return the values of a file and its faults; both are empty if the file does not exist."""
    try:
        content = disk.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as error:
        return {}, [Fault(path, 0, f"cannot read the file: {error.strerror or error}")]
    try:
        text = content.decode()
        tomllib.loads(text)
    except UnicodeDecodeError as error:
        return {}, [Fault(path, content.count(b"\n", 0, error.start) + 1, "the text is not UTF-8")]
    except tomllib.TOMLDecodeError as error:
        return {}, [_syntax_fault(path, text, str(error))]
    return _Check(program, path).values(text)


def _syntax_fault(path: str, text: str, message: str) -> Fault:
    """Return a fault that tomllib reports as ``TEXT (at line 1, column 2)`` or ``TEXT (at end of document)``."""
    match = re.search(r" \(at line (\d+), column \d+\)$", message)
    line = int(match[1]) if match else text.rstrip("\n").count("\n") + 1
    return Fault(path, line, re.sub(r" \(at [^()]*\)$", "", message))


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the statements of a valid document, which tomllib parses without reporting their lines.

    A statement ends with a line, and no part of it up to an earlier end of line is valid.
    """
    header, table, lines = "", "", list[str]()
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not lines and line.lstrip().startswith("["):
            header, content = line, tomllib.loads(line)
            table = next(iter(content))
            yield _Statement(number, "", content)
            continue
        lines.append(line)
        try:
            content = tomllib.loads("\n".join((header, *lines)))
        except tomllib.TOMLDecodeError:
            continue
        inner = content[table] if table else content
        yield _Statement(number - len(lines) + 1, table, inner if isinstance(inner, Mapping) else {})
        lines = []


class _Check:
    """Checks the statements of a file by the parser of its program."""

    def __init__(self, program: Program, path: str) -> None:
        self._program = program
        self._path = path
        self._tables = tables(program, program.command_line())
        self._faults: list[Fault] = []
        self._values: dict[str, dict[str, object]] = {}

    def values(self, text: str) -> tuple[Values, list[Fault]]:
        """Return the values of a document, and its faults in the order of their lines."""
        for statement in _statements(text):
            if statement.table:
                if statement.table in self._tables:
                    self._entries(statement.line, statement.table, statement.content)
            elif "" in self._tables:
                self._entries(statement.line, "", statement.content)
            else:
                self._table(statement.line, statement.content)
        return self._values, self._faults

    def _fault(self, line: int, message: str) -> None:
        self._faults.append(Fault(self._path, line, message))

    def _table(self, line: int, content: Mapping[str, object]) -> None:
        for name, entries in content.items():
            if name in self._tables and isinstance(entries, Mapping):
                self._entries(line, name, entries)
            elif name in self._tables:
                self._fault(line, f"{name!r} is a table: write [{name}] on a line of its own, and its settings below")
            else:
                self._fault(line, self._unknown(name, ""))

    def _entries(self, line: int, table: str, entries: Mapping[str, object]) -> None:
        for name, value in entries.items():
            action = self._tables[table].get(name)
            if action is None:
                self._fault(line, self._unknown(name, table))
                continue
            try:
                self._values.setdefault(table, {})[action.dest] = _converted(action, value)
            except ValueError as error:
                self._fault(line, f"{name}: {error}")

    def _unknown(self, name: str, table: str) -> str:
        owner = f"[{table}] of {self._program.name}" if table else self._program.name
        message = f"{name!r} is not a setting of {owner}"
        if name in NEVER_KEYS or name in self._program.excluded:
            return f"{message}: it is an option of the command line only"
        if owners := [f"[{other}]" for other, options in self._tables.items() if name in options]:
            return f"{message}; it belongs in {' or '.join(owners)}"
        names = list(self._tables.get(table, self._tables))
        nearest = difflib.get_close_matches(name.replace("_", "-").lower(), names, 1)
        return f"{message}; did you mean {nearest[0]!r}?" if nearest else message


def _converted(action: argparse.Action, value: object) -> object:
    """Return the value of an option as its parser converts it; ValueError says what to write instead."""
    if is_flag(action):
        if isinstance(value, bool):
            return value
        raise ValueError(f"{_as_toml(value)} is not true or false")
    if isinstance(action.default, int | float):
        whole = isinstance(action.default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ValueError(f"{_as_toml(value)} is not a {'whole ' if whole else ''}number; write it without quotes")
    elif not isinstance(value, str):
        raise ValueError(f"{_as_toml(value)} is not a text in quotes")
    convert: Callable[[str], object] = action.type if callable(action.type) else str
    try:
        converted = convert(str(value))
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    except ValueError as error:
        raise ValueError(f"{_as_toml(value)} is not valid: {error}") from None
    if action.choices is not None and converted not in action.choices:
        raise ValueError(f"{_as_toml(value)} is not one of {', '.join(map(str, action.choices))}")
    return converted


def _as_toml(value: object) -> str:
    """Return a value as TOML has it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def path_of(program: Program, root: str) -> str:
    """Return the path of a program's file, below a root or in the system's folder."""
    return f"{paths.Paths.below(root).etc}/{program.file}"


class Settings:
    """The options of a running daemon, in ``options``; ``follow`` keeps those that can change up to date."""

    def __init__(self, program: Program, options: argparse.Namespace, *, argv: Sequence[str] | None, path: str) -> None:
        self.options = options
        self._program = program
        self._argv = argv
        self._path = path

    def follow(self, disk: interface.Disk, apply: Callable[[argparse.Namespace], None]) -> None:
        """Read the file again at SIGHUP from now on; ``apply`` gets the options with those that have changed."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload, disk, apply)

    def reload(self, disk: interface.Disk, apply: Callable[[argparse.Namespace], None]) -> None:
        """Read the file again; keep all settings if it has a fault, and those that need a restart in any case."""
        name = self._program.name
        values, faults = read(self._program, self._path, disk)
        if faults:
            for fault in faults:
                log.error("%s", fault)
            log.error("%s keeps its settings", name)
            return
        parser = self._program.command_line()
        fresh = vars(_parsed(parser, self._argv, values))
        options = argparse.Namespace(**vars(self.options))
        for dest, action in self._actions(parser).items():
            before, after = vars(self.options).get(dest), fresh.get(dest)
            if before == after:
                continue
            if key(action) in self._program.live:
                setattr(options, dest, after)
                log.info("%s: %s changes from %s to %s", self._path, key(action), before, after)
            else:
                log.warning(
                    "%s: %s changes from %s to %s when %s restarts", self._path, key(action), before, after, name
                )
        self.options = options
        apply(options)
        log.info("%s has read %s again", name, self._path)

    def _actions(self, parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
        """Return the options with a key, by attribute of the parsed options; commands share those of the same name."""
        every = tables(self._program, parser).values()
        return {action.dest: action for options in every for action in options.values()}


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None, values: Values) -> argparse.Namespace:
    """Return the options of a command line, with the values of a file as defaults."""
    for name, command in _commands(parser).items():
        command.set_defaults(**values.get(name, {}))
    return parser.parse_args(argv)


def load(
    program: Program,
    argv: Sequence[str] | None,
    disk: interface.Disk,
    *,
    uses_file: Callable[[argparse.Namespace], bool] = lambda _: True,
) -> Settings:
    """Return the settings of a program: command line, file, defaults; exit with code 1 for a faulty file.

    With ``--check`` the program only reports the file's faults, and exits.
    """
    parser = program.command_line()
    options = parser.parse_args(argv)
    path = path_of(program, getattr(options, "root", os.environ.get("GANTRY_ROOT", "")))
    if not uses_file(options):
        return Settings(program, options, argv=argv, path=path)
    values, faults = read(program, path, disk)
    if faults:
        parser.exit(1, "".join(f"{program.name}: {fault}\n" for fault in faults))
    if options.check:
        parser.exit(0)
    return Settings(program, _parsed(parser, argv, values), argv=argv, path=path)
