"""Common functions of daemons that run until a signal: the parser of ports, limits, exit codes and error output."""

import argparse
import asyncio
import errno
import sys
from collections.abc import Coroutine

from gantry import errors
from gantry.runtime.real import open_files

BUSY_PORT = "ss -ltnp shows the program that has the port; stop it, or set another port"


def port(text: str) -> int:
    """Return a TCP port of the command line; 0 means no port, or a port that the system chooses."""
    if not text.isdecimal() or int(text[:6]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: write a number up to 65535")
    return int(text)


def run(name: str, work: Coroutine[object, object, None]) -> int:
    """Run a program to its end and return its exit code; after an error 1, with a line on standard error.

    Its limit of open files is raised to ``open_files.LIMIT`` if the system allows it.
    """
    open_files.raise_limit()
    try:
        asyncio.run(work)
    except errors.GantryError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        remedy = f"; {BUSY_PORT}" if error.errno == errno.EADDRINUSE and not error.filename else ""
        print(f"{name}: {error.strerror or error}{where}{remedy}", file=sys.stderr)
        return 1
    return 0
