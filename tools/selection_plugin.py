"""The pytest plugin that says at the end of a run which parts of the tests were left out, and how to run them."""

import pytest

COMMANDS = {
    "slow": ("tests that take long or need real time", "make test-slow"),
    "real": ("tests with VMs, namespaces, LVM and DRBD", "make test-real, as root"),
    "kube": ("tests on a real Kubernetes API server", "make test-kube, as root"),
    "install": (
        "tests that install the packages and start the images",
        "make packages test-install test-upgrade images test-images, as root",
    ),
}
"""The marks of parts, each with what it holds and the command that runs it."""

DEFAULT = "not real and not kube and not install and not slow"
"""The expression of marks that pytest takes from pyproject.toml when the command line has none."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the parts that were left out."""
    if config.getoption("markexpr") == DEFAULT:
        for text, command in COMMANDS.values():
            terminalreporter.write_line(f"left out: {text}: {command}")
        terminalreporter.write_line("left out: the long fuzzers and 200 kills of a master: make test-long")
