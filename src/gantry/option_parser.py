"""The parser of the command lines of daemons and tools, which reports a wrong one in a single line."""

import argparse
import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

_UNKNOWN = re.compile(r"unrecognized arguments: (--[^\s=]+)")
_NO_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from")


class Parser(argparse.ArgumentParser):
    """Parses options; an error has the option or command that an unknown one resembles, and no usage before it."""

    def error(self, message: str) -> NoReturn:
        """Print an error and end the program with code 2."""
        known: Iterable[str] = ()
        if match := _UNKNOWN.match(message):
            known = self._options()
        elif match := _NO_CHOICE.search(message):
            known = re.findall(r"'([^']*)'", message[match.end() :])
        similar = _most_similar(match[1], known) if match else ""
        hint = f"did you mean {similar}?" if similar else f"see {self.prog} --help"
        self.exit(2, f"{self.prog}: {message}; {hint}\n")

    def _options(self) -> Iterator[str]:
        """Yield the options of the program and of its commands: argparse reports unknown ones here."""
        for action in self._actions:
            yield from action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command._option_string_actions


def _most_similar(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most similar, first of all one with the same letters; empty if none is similar."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    return min(close, key=lambda name: sorted(name) != sorted(word), default="")
