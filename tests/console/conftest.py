"""A cluster with a console, and Debian's Chromium to look at it."""

import base64
import contextlib
import dataclasses
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests import ports
from tests.cluster import lab

from gantry.doors import console

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
SERIOUS = ("serious", "critical")
CHROMIUM = Path("/usr/bin/chromium")
USERS = "alice one write\nbob two read\ncarol three\ndora four read\n"
EXPECTED = ("Failed to load resource", "task queue exceeded allotted deadline", "Security negotiation failed")
"""Complaints of the browser that a test may cause."""
TIMEOUT = 30_000
"""Milliseconds until something has to be seen; a busy machine needs more than a person would wait."""


@dataclasses.dataclass
class ConsoleServer:
    """A cluster, and the daemon that serves its console."""

    cluster: lab.Lab
    port: int
    options: tuple[str, ...] = ()
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"

    def start(self) -> None:
        where = ["--bind", "127.0.0.1", "--port", str(self.port), "--root", str(self.cluster.master), *self.options]
        self.daemon = subprocess.Popen([str(lab.BIN / "gantry-rapi"), *where])
        lab.wait_until(self._listens, "the remote API")

    def stop(self) -> None:
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(60)

    def _listens(self) -> bool:
        assert self.daemon
        assert self.daemon.poll() is None
        password = base64.b64encode(b"alice:one").decode()
        request = urllib.request.Request(f"{self.address}/version", headers={"Authorization": f"Basic {password}"})
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False


@pytest.fixture(scope="session")
def console_server() -> Iterator[ConsoleServer]:
    if not console.built_files():
        pytest.skip("the console is not built: make console, which make test-real requires")
    with lab.lab() as cluster:
        cluster.init()
        cluster.add_node()
        cluster.add_network()
        for number in (1, 2, 3):
            cluster.add_instance(f"web{number}.example")
        (cluster.master / "lib/users").write_text(USERS)
        console_server = ConsoleServer(cluster, ports.free())
        console_server.start()
        yield console_server
        console_server.stop()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root; the pages are the project's own.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


# For the tests of one file: Playwright keeps an event loop in this thread, so no simulated world of another file runs.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@dataclasses.dataclass
class Visitor:
    """Somebody with a browser of their own, who notes what the browser complains about."""

    context: BrowserContext
    console_server: ConsoleServer
    complaints: list[str] = dataclasses.field(default_factory=list)

    def open(self, path: str = "") -> Page:
        """Return a page of the console in a new tab."""
        page = self.context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.goto(f"{self.console_server.address}/console/{path}")
        return page

    def _note(self, kind: str, text: str) -> None:
        # A refused request is what a test may want, and the page shows its reason; the terminal says that it is slow.
        if kind in ("error", "warning") and not any(expected in text for expected in EXPECTED):
            self.complaints.append(text)

    def log_in(self, user: str = "alice", password: str = "one", *, path: str = "") -> Page:
        """Return a page after a log-in."""
        page = self.open(path)
        fill_in(page, user, password)
        # The page of the log-in has a heading too, but no search.
        page.get_by_role("search").wait_for()
        page.get_by_role("heading", level=1).wait_for()
        return page


def fill_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def serious_faults(page: Page) -> list[tuple[str, str]]:
    """Return the rule and the element of each serious fault that axe finds; its script is in the page already."""
    violations = page.evaluate("axe.run({resultTypes: ['violations']}).then((result) => result.violations)")
    return [(each["id"], each["nodes"][0]["html"]) for each in violations if each["impact"] in SERIOUS]


@pytest.fixture
def visitor(browser: Browser, console_server: ConsoleServer) -> Iterator[Visitor]:
    context = browser.new_context(ignore_https_errors=True)
    person = Visitor(context, console_server)
    yield person
    context.close()
    assert person.complaints == []
