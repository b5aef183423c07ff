"""Interaction on a terminal: the progress line, and questions.

This module never writes to stdout, so that output can be piped.
"""

import os
import sys
from collections.abc import Sequence

from gantry.cli import errors

ERASE = "\r\x1b[K"
TTY = "/dev/tty"


def is_dumb() -> bool:
    """Return whether the terminal shows control characters as they are, as in an editor's shell."""
    return os.environ.get("TERM", "") == "dumb"


class Progress:
    """A line on stderr that each update overwrites; without output if stderr is not a terminal, or a dumb one."""

    def __init__(self) -> None:
        self.visible = sys.stderr.isatty() and not is_dumb()
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line; text beyond the terminal's width is cut."""
        if self.visible:
            sys.stderr.write(ERASE + text[: _width() - 1])
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._shown:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
            self._shown = False


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def confirm(question: str, *, names: Sequence[str] = (), option: str = "--force") -> None:
    """Ask on the terminal for confirmation; raises RefusedError without one, or without a terminal.

    ``option`` is that of the command which skips the question.
    """
    name_lines = "".join(f"  {name}\n" for name in names)
    try:
        tty = os.open(TTY, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        sys.stderr.write(
            f"{question}\n{name_lines}No terminal for confirmation, so nothing is done; {option} skips the question.\n"
        )
        raise errors.RefusedError from None
    try:
        os.write(tty, f"{question}\n{name_lines}y/[n]/?: ".encode())
        while (answer := os.read(tty, 1024).decode(errors="replace").strip().lower()) == "?":
            os.write(tty, b"y continues, n (or Enter) cancels without changes.\ny/[n]/?: ")
    finally:
        os.close(tty)
    if answer not in ("y", "yes"):
        raise errors.RefusedError
