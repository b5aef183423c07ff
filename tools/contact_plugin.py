"""The pytest plugin that notes which tests reach a real part: another process, or a socket to one.

A promise that was tested through a running daemon, a virtual machine, a database or a client of its world holds there;
one that was tested by logic only holds as far as the logic is used as the test uses it. Which of the two it was is
observed rather than declared: the interpreter reports (``sys.addaudithook``) each process that is started and each
socket that connects. What a fixture reaches counts for each test that uses the fixture, whichever test set it up.
"""

import os
import sys
from collections.abc import Generator

import pytest

PROPERTY = "contact"
"""The key under which a test's report says that it reached a real part."""

CONTACTS = frozenset({"socket.connect", "subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"})
"""Audit events of the interpreter that are contacts."""

TOOLS = frozenset({"git", "lint-imports", "mypy", "ruff", "getconf", "ldconfig"})
"""Programs that look at the source code or the machine, and are not a part of what is promised."""


stand_ins: set[str] = set()
"""The paths of the sockets of servers in this process that imitate a daemon for a test."""


class Observer:
    """Notes contacts since its last reset, in this process."""

    def __init__(self) -> None:
        self.touched = False
        self._fixtures: set[object] = set()
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in CONTACTS and not (_is_tool(arguments) or _is_own_text(arguments) or _is_stand_in(arguments)):
            self.touched = True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Note the fixtures that reach a real part while they are set up."""
        before, self.touched = self.touched, False
        try:
            return (yield)
        finally:
            if self.touched:
                self._fixtures.add(fixturedef)
            else:
                self._fixtures.discard(fixturedef)
            self.touched = self.touched or before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Begin to observe a test."""
        self.touched = False
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Note in the report of a test whether it, or a fixture of it, reached a real part."""
        try:
            return (yield)
        finally:
            info = getattr(item, "_fixtureinfo", None)
            used = {definition for each in info.name2fixturedefs.values() for definition in each} if info else set()
            if self.touched or used & self._fixtures:
                item.user_properties.append((PROPERTY, "real part"))


def _command(arguments: tuple[object, ...]) -> list[str]:
    """Return the command of a program that is started, empty for other events."""
    command = arguments[1] if len(arguments) > 1 else ()
    return [str(word) for word in command] if isinstance(command, list | tuple) else []


def _is_tool(arguments: tuple[object, ...]) -> bool:
    command = _command(arguments)
    return bool(command) and os.path.basename(command[0]) in TOOLS


def _is_own_text(arguments: tuple[object, ...]) -> bool:
    """Return whether this Python is started with a program in the arguments, behind options without a value."""
    command = _command(arguments)
    if command[:1] != [sys.executable]:
        return False
    return next((word for word in command[1:] if word == "-c" or not word.startswith("-")), "") == "-c"


def _is_stand_in(arguments: tuple[object, ...]) -> bool:
    """Return whether a socket connects to a server that imitates a daemon."""
    return len(arguments) > 1 and isinstance(arguments[1], str) and arguments[1] in stand_ins


def pytest_configure(config: pytest.Config) -> None:
    """Register the observer in the processes that run tests."""
    if not config.option.collectonly:
        config.pluginmanager.register(Observer(), "contact-observer")
