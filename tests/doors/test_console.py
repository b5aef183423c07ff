"""The files of the console: what a browser gets, with which headers, and what stays with the remote API."""

import gzip
import importlib.resources
from pathlib import Path

import pytest

from gantry.doors import console, http
from gantry.runtime import http_interface, simulated

FILES = {"index.html": b"<!doctype html>", "assets/main-1A2B.js": b"'use strict';" * 50, "assets/main.css": b"p {}"}


class Remote:
    """An application that answers everything with the same."""

    id_header = ("X-Request-Id", "")

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        return 7

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        return http_interface.Response(200, b"remote")

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        return http_interface.Response(error.status, str(error).encode())


def ask(path: str, method: str = "GET", files: dict[str, bytes] = FILES, **headers: str) -> http_interface.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with simulated.World(seed=1) as world:
        server = http.Server(world.machine("node1"), console.Application(Remote(), files))
        return world.run(server.answer(http_interface.Request(method, path, b"", sent)))


@pytest.mark.parametrize("path", ["/console/", "/console/?x=1", "/console/index.html"])
def test_the_page_may_load_nothing_but_its_own_files(path: str) -> None:
    answer = ask(path)
    assert (answer.status, answer.body, answer.content_type) == (200, b"<!doctype html>", "text/html; charset=utf-8")
    policy = dict(rule.split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-cache"


def test_files_whose_names_change_with_their_content_are_kept_by_browsers() -> None:
    answer = ask("/console/assets/main-1A2B.js", accept_encoding="gzip, br")
    assert (answer.content_type, answer.headers["Content-Encoding"]) == ("text/javascript; charset=utf-8", "gzip")
    assert gzip.decompress(answer.body) == FILES["assets/main-1A2B.js"]
    assert "immutable" in answer.headers["Cache-Control"]
    assert ask("/console/assets/main-1A2B.js").body == FILES["assets/main-1A2B.js"]
    assert ask("/console/assets/main.css", "HEAD").body == b""


@pytest.mark.parametrize(
    "path", ["/console/x", "/console/../index.html/..", "/console/%2e%2e/secret", "/console/assets/", "/console/assets"]
)
def test_there_are_no_other_files(path: str) -> None:
    assert ask(path).status == 404


@pytest.mark.parametrize("path", ["/", "/console"])
def test_a_browser_is_led_to_the_console(path: str) -> None:
    answer = ask(path, accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (answer.status, answer.headers["Location"]) == (303, "/console/")


@pytest.mark.parametrize(("path", "method"), [("/", "GET"), ("/", "PUT"), ("/2/info", "GET"), ("/consoles", "GET")])
def test_everything_else_is_for_the_remote_api(path: str, method: str) -> None:
    assert ask(path, method, accept="application/json").body == b"remote"


def test_files_cannot_be_changed() -> None:
    assert ask("/console/", "PUT").status == 405


def test_an_installation_without_a_console_says_so() -> None:
    answer = ask("/console/", files={})
    assert (answer.status, b"make console" in answer.body) == (404, True)


def test_an_installation_has_the_files_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.resources, "files", lambda _: tmp_path)
    read = console.built_files.__wrapped__
    assert read() == {}
    for name, content in FILES.items():
        path = tmp_path / "static" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert read() == FILES
