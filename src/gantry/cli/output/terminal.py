"""What needs somebody to look: the progress line on a terminal, and questions.

Neither ever writes to stdout, so that output can be piped.
"""

import os
import sys
from collections.abc import Sequence

from gantry.cli import errors

ERASE = "\r\x1b[K"
TTY = "/dev/tty"


class Progress:
    """One line on stderr that is written over; silent when stderr is no terminal."""

    def __init__(self) -> None:
        self.visible = sys.stderr.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line; a longer text is cut at the terminal's edge."""
        if self.visible:
            sys.stderr.write(ERASE + text[: _width() - 1])
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Take the line away, before anything else is printed."""
        if self._shown:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
            self._shown = False


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def confirm(question: str, *, names: Sequence[str] = (), exit_code: int = 1) -> None:
    """Ask on the terminal whether to go on; raises RefusedError, also when there is nobody to ask."""
    shown = "".join(f"  {name}\n" for name in names)
    try:
        tty = os.open(TTY, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        sys.stderr.write(f"{question}\n{shown}No terminal to ask on, so the answer is no; --force goes on.\n")
        raise errors.RefusedError(exit_code=exit_code) from None
    try:
        os.write(tty, f"{question}\n{shown}y/[n]/?: ".encode())
        while (answer := os.read(tty, 1024).decode(errors="replace").strip().lower()) == "?":
            os.write(tty, b"y goes on, n (or Enter) changes nothing.\ny/[n]/?: ")
    finally:
        os.close(tty)
    if answer not in ("y", "yes"):
        raise errors.RefusedError(exit_code=exit_code)
