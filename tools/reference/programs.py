"""The pages of the daemons and tools, from their argument parsers: ``command_line`` in the module of each program."""

import argparse
import importlib
from collections.abc import Iterator

from tools.reference import page


def parser_of(entry: str) -> argparse.ArgumentParser:
    """Return the parser of an entry point, ``module:function``."""
    parser = importlib.import_module(entry.partition(":")[0]).command_line()
    assert isinstance(parser, argparse.ArgumentParser), entry
    return parser


def about(entry: str) -> str:
    """Return what the help of a program says about it."""
    return parser_of(entry).description or ""


def render(name: str, entry: str) -> str:
    """Return the page of a program."""
    parser = parser_of(entry)
    lines = _section(parser)
    for command, text in _commands(parser):
        lines += [f"## {command.prog}", "", f"{text[:1].upper()}{text[1:]}.", "", *_section(command)]
    return page.render(name, parser.description or "", lines)


def missing(entry: str) -> Iterator[str]:
    """Yield each argument and option of a program without a help text."""
    parser = parser_of(entry)
    for each in (parser, *(command for command, _ in _commands(parser))):
        yield from (_words(action) for action in _actions(each) if not action.help)


def _commands(parser: argparse.ArgumentParser) -> list[tuple[argparse.ArgumentParser, str]]:
    """Return the parser and the help of each command that a program has."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [
        (action.choices[choice.dest], choice.help or "") for action in actions for choice in action._choices_actions
    ]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def _section(parser: argparse.ArgumentParser) -> list[str]:
    commands = [f"`{command.prog}`" for command, _ in _commands(parser)]
    lines = [f"Its commands are {', '.join(commands)}.", ""] if commands else []
    usage = [_words(action) for action in _actions(parser) if not action.option_strings]
    lines += [" ".join([f"`{parser.prog} [OPTIONS]", *usage]) + "`", ""] if not commands else []
    return [*lines, *page.table(("option", ""), map(_row, _actions(parser)))]


def _row(action: argparse.Action) -> tuple[str, str]:
    text = (action.help or "") % vars(action)
    notes = [f"one of {', '.join(map(str, action.choices))}"] if action.choices else []
    notes += ["required"] if action.required and action.option_strings else []
    notes += ["may be repeated"] if isinstance(action, argparse._AppendAction) else []
    return page.code(_words(action)), text + (f" ({'; '.join(notes)})" if notes else "")


def _words(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"[{metavar}]" if action.nargs == "?" else metavar
    return ", ".join(action.option_strings) + (f" {metavar}" if action.nargs != 0 else "")
