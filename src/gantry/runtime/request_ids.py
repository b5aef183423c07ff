"""The id of the client's request that a task works for, from the front end to the nodes and into the logs.

A front end gives each request an id, which its answer has too. The id goes along with calls to the master
(``rpc.luxi``), is stored with the jobs that the request submits, and goes along with their calls that change something
on a node (``rpc.client``). Commands give their requests no id: the work of their jobs has the jobs' numbers. Each
daemon has it in ``CURRENT`` while it works for the request, so that log messages have it.
"""

import contextvars
import re

CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST_ID", default="")
"""The id; empty for work that no request began."""

HEADER = "x-gantry-request"
"""The header of a call to a node that has the id."""
MAX_LENGTH = 64
_FORM = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_LENGTH - 1}}}")


def accepted(text: str) -> str:
    """Return an id from elsewhere, empty if it is not one: log messages have it as it is.

    >>> accepted("req-6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001")
    'req-6f0d3c3e-3f6e-4d9c-8f53-6b6c1f6a0001'
    >>> accepted("two\\nlines")
    ''
    """
    return text if _FORM.fullmatch(text) else ""


def of_job(number: int) -> str:
    """Return the id of the work of a job that a command submitted, which gives its requests none."""
    return f"job-{number}"


def header() -> dict[str, str]:
    """Return the header for a call of the present task, empty without an id."""
    return {HEADER: number} if (number := CURRENT.get()) else {}
