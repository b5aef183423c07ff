"""A pytest plugin that records which functions of some directories are called by the tests.

``pytest -p tests.kubernetes.calls``, with ``CALLS_OF`` (folders, separated by colons) and ``CALLS_TO`` (a file) in the
environment; the file gets ``path:qualified name`` of each, one a line.
"""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType

import pytest

OF = tuple(f"{folder}/" for folder in os.environ["CALLS_OF"].split(":"))
seen: set[CodeType] = set()
passed: set[CodeType] = set()


def _note(frame: FrameType, _: str, __: object) -> None:
    """Record a call, without the calls inside it."""
    code = frame.f_code
    if code not in seen and code not in passed:
        (seen if code.co_filename.startswith(OF) else passed).add(code)


# Some are called when a module is imported, which is before any test.
sys.settrace(_note)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Trace a test, independently of the previous one."""
    sys.settrace(_note)
    return (yield)


def pytest_sessionfinish() -> None:
    """Write the recorded calls."""
    lines = sorted(f"{code.co_filename}:{code.co_qualname}" for code in seen)
    Path(os.environ["CALLS_TO"]).write_text("\n".join(lines))
