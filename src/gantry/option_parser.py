"""The parser of command lines; only the commands, ``gantry`` and ``gnt-*``, have one of their own (``cli.framework``).

It reports a wrong command line in a single line. Programs that start at each boot of a node use it too, and one that
runs beside a neutron-server, so it imports the standard library only, and little of that.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

_OPTION = re.compile(r"-[-A-Za-z][^\s=]+")
"""The name of a long option at the beginning of a word; a dash may be missing."""

_NO_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """Parses options; an error has the option, command or value that a wrong one resembles, and no usage before it."""

    _words: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for the class of the namespace
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words of a command line; the parser of each command gets those after the command."""
        self._words = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(self._words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print an error and end the program with code 2.

        An unknown option is reported before any other fault, which may follow from it: a required option that is
        misspelled is missing, and its value becomes an argument.
        """
        known = list(self._options())
        similar = ""
        if option := self._unknown_option(known):
            message = message if message.startswith("unrecognized") else f"unrecognized arguments: {option}"
            similar = _most_similar(option, known)
        elif match := _NO_CHOICE.search(message):
            # Newer versions of Python write the choices without quotes.
            similar = _most_similar(match[1], [choice.strip("'") for choice in match[2].split(", ")])
        hint = f"did you mean {similar}?" if similar else f"see {self.prog} --help"
        self.exit(2, f"{self.prog}: {message}; {hint}\n")

    def _unknown_option(self, known: Sequence[str]) -> str:
        """Return the first long option that is not known, or empty text; argparse also knows options by beginnings."""
        for word in self._words:
            if word == "--":
                break
            match = _OPTION.match(word)
            if match and match[0][:2] not in known and not any(option.startswith(match[0]) for option in known):
                return match[0]
        return ""

    def _options(self) -> Iterator[str]:
        """Yield the options of the program and of its commands: argparse reports unknown ones here."""
        for action in self._actions:
            yield from action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command._option_string_actions


def _most_similar(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most similar, first of all one with the same letters; empty if none is similar."""
    import difflib  # An error alone needs it.

    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    return min(close, key=lambda name: sorted(name) != sorted(word), default="")
