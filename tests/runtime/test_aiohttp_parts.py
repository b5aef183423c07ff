"""The parts of aiohttp that its documentation does not promise, and the bound of its version.

``http_server`` overrides methods of aiohttp's protocol and reads its count of requests. A new minor version may rename
them, so the bound admits none before these tests have passed with it.
"""

import inspect
import re
import tomllib
from asyncio import sslproto
from pathlib import Path

import pytest
from aiohttp import web

from gantry.runtime.real import http_server

ROOT = Path(__file__).resolve().parents[2]
OVERRIDDEN = (
    "connection_made", "data_received", "pause_writing", "resume_writing", "connection_lost", "handle_error",
)  # fmt: skip


def test_the_protocol_counts_its_requests() -> None:
    assert "_request_count" in web.RequestHandler.__slots__


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_an_overridden_method_has_the_parameters_of_the_original(name: str) -> None:
    original = inspect.signature(getattr(web.RequestHandler, name))
    override = inspect.signature(vars(http_server._Protocol)[name])
    assert list(override.parameters) == list(original.parameters)


def test_no_other_method_of_the_protocol_is_overridden_unnoticed() -> None:
    inherited = {name for name in vars(http_server._Protocol) if hasattr(web.RequestHandler, name)}
    special = {name for name in inherited if name.startswith("__")}
    assert inherited - special == {*OVERRIDDEN}


def test_a_connection_can_be_closed_after_the_present_answer() -> None:
    assert list(inspect.signature(web.RequestHandler.force_close).parameters) == ["self"]


def test_the_buffer_of_tls_has_a_size() -> None:
    assert isinstance(sslproto.SSLProtocol.max_size, int)


def test_the_next_minor_version_is_excluded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = (each for each in project["dependencies"] if each.startswith("aiohttp"))
    locked = re.search(r"^aiohttp==(\d+)\.(\d+)\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    major, minor = map(int, locked.groups())
    assert bound == f"aiohttp>={major}.{minor},<{major}.{minor + 1}"
