"""Whether an allow-list contains a value. Master and nodes compare by the same rules.

An entry of a list of paths is a file, or a folder with everything below it; ``*`` stands for any characters of one
part. An entry of a list of words is a whole word, or an option of a program with its value; ``*`` stands for any
characters but commas and spaces, and the entry ``*`` alone for anything. Paths with ``..`` are in no list: where they
lead depends on symbolic links.
"""

import re
import shlex
from collections.abc import Iterable
from enum import StrEnum


class Form(StrEnum):
    """What the values of a list are: paths, sockets' folders or addresses, options, or words with a separator."""

    PATH = "path"
    SOCKET = "socket"
    OPTIONS = "options"
    SPACED = "spaced"
    SEMICOLONS = "semicolons"


def permits(entries: Iterable[str], value: str, form: str) -> bool:
    """Return whether a list contains all parts of a value; a list of folders of sockets contains every address."""
    if form == Form.SOCKET and not value.startswith("/"):
        return True
    if form in (Form.PATH, Form.SOCKET):
        return _permits_path(entries, value)
    patterns = [re.compile(_expression(entry, "[^, ]*")) for entry in entries]
    try:
        return "*" in entries or all(any(each.fullmatch(word) for each in patterns) for word in _words(value, form))
    except ValueError:  # a quotation without an end
        return False


def _permits_path(entries: Iterable[str], value: str) -> bool:
    parts = [part for part in value.split("/") if part]
    if not value.startswith("/") or ".." in parts:
        return False
    folders = [entry for entry in entries if entry.startswith("/")]
    return any(_contains([part for part in folder.split("/") if part], parts) for folder in folders)


def _contains(entry: list[str], parts: list[str]) -> bool:
    matching = zip(entry, parts, strict=False)
    return len(entry) <= len(parts) and all(re.fullmatch(_expression(own, ".*"), part) for own, part in matching)


def _expression(entry: str, any_characters: str) -> str:
    return any_characters.join(re.escape(text) for text in entry.split("*"))


def _words(value: str, form: str) -> list[str]:
    if form == Form.SPACED:
        return value.split()
    if form == Form.SEMICOLONS:
        return [word.strip() for word in value.split(";") if word.strip()]
    options: list[str] = []
    for word in shlex.split(value):
        if options and not word.startswith("-"):
            options[-1] += f" {word}"
        else:
            options.append(word)
    return options
