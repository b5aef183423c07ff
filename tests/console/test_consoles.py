"""Consoles of instances in a browser; the guests' lines are played by the tests, on a cluster of daemons."""

import contextlib
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.cluster import lab
from tests.console.conftest import TIMEOUT, ConsoleServer, Visitor

from gantry.runtime import paths

pytestmark = pytest.mark.real

NAME = "web1.example"
CONSOLE = f"#/instances/{NAME}/console"

expect.set_options(timeout=TIMEOUT)


class Line(socketserver.ThreadingUnixStreamServer):
    """A guest's serial line: it answers each line with what was typed, in capitals."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.typed = b""
        self.connections: list[socketserver.StreamRequestHandler] = []
        super().__init__(str(path), Handler)

    def say(self, data: bytes) -> None:
        for each in self.connections:
            each.wfile.write(data)

    def hang_up(self) -> None:
        for each in self.connections:
            each.request.shutdown(2)


class Handler(socketserver.StreamRequestHandler):
    """A connection to a line."""

    server: Line

    def handle(self) -> None:
        self.server.connections.append(self)
        typed = b""
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                self.server.typed += data
                typed += data
                while b"\r" in typed:
                    line, _, typed = typed.partition(b"\r")
                    self.wfile.write(b"guest says " + line.upper() + b"\r\n")
        self.server.connections.remove(self)


def home(console_server: ConsoleServer, name: str = NAME) -> lab.Node:
    """Return the node of an instance."""
    [[node]] = console_server.cluster.rows("gnt-instance", "pnode", name)
    (home_node,) = (each for each in console_server.cluster.nodes if each.name == node)
    return home_node


@contextlib.contextmanager
def line(console_server: ConsoleServer, name: str = NAME) -> Iterator[Line]:
    """Play the serial line of an instance on its node; at the end nobody is connected to it."""
    path = Path(paths.Paths.below(str(home(console_server, name).root)).instances) / "fake" / f".{name}.serial"
    with Line(path) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        try:
            yield served
            lab.wait_until(lambda: not served.connections, "the end of the connections to the line")
        finally:
            served.hang_up()
            served.shutdown()
            path.unlink()


def console(page: Page) -> Locator:
    return page.get_by_role("region", name=f"Serial console of {NAME}")


def wait_for_words(page: Page, text: str) -> None:
    expect(console(page).get_by_role("status").or_(console(page).get_by_role("alert")).first).to_contain_text(text)


def read_aloud(page: Page) -> Locator:
    """Return what a screen reader finds in the terminal, which itself is a picture."""
    console(page).get_by_label("Read aloud").check()
    return page.locator(".xterm-accessibility")


def test_a_person_types_in_a_serial_console_and_sees_the_answer(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with line(console_server) as guest:
        page = visitor.log_in(path=f"#/instances/{NAME}")
        page.get_by_role("link", name="Console").click()
        expect(page).to_have_url(re.compile(re.escape(CONSOLE)))
        wait_for_words(page, f"to {NAME} on node")
        text = read_aloud(page)
        page.locator(".screen").click()
        page.keyboard.type("hello")
        page.keyboard.press("Enter")
        expect(text).to_contain_text("guest says HELLO")
        page.keyboard.press("Tab")
        lab.wait_until(lambda: guest.typed == b"hello\r\t", "the Tab key at the guest")
        page.keyboard.press("Control+]")
        expect(console(page).get_by_role("button", name="Close")).to_be_focused()
        page.close()


def test_the_end_of_a_console_is_explained_and_it_can_be_opened_again(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with line(console_server) as guest:
        page = visitor.log_in(path=CONSOLE)
        wait_for_words(page, "connected")
        lab.wait_until(lambda: bool(guest.connections), "the connection at the guest")
        guest.hang_up()
        wait_for_words(page, "The guest on node")
        wait_for_words(page, f"{NAME} runs on node")
        page.get_by_role("button", name="Connect again").click()
        wait_for_words(page, "connected")
        page.get_by_role("button", name="Close").click()
        wait_for_words(page, "You have closed the console")
        lab.wait_until(lambda: not guest.connections, "the end of the connection")
        page.close()


def test_a_node_that_is_gone_is_named_and_its_console_opens_again_when_it_is_back(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    node = home(console_server)
    with line(console_server):
        page = visitor.log_in(path=CONSOLE)
        wait_for_words(page, "connected")
        assert node.daemon
        node.daemon.kill()
        node.daemon.wait()
        wait_for_words(page, f"Node {node.name} has broken the connection, or does not answer any more")
        page.get_by_role("button", name="Connect again").click()
        wait_for_words(page, f"node {node.name} (127.0.0.1 port {node.port}) cannot be reached")
        node.start()
        page.get_by_role("button", name="Try again").click()
        wait_for_words(page, "connected")
        page.get_by_role("button", name="Close").click()
        page.close()


def test_of_two_people_one_has_the_console_and_the_other_may_take_it(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with line(console_server):
        first = visitor.log_in(path=CONSOLE)
        wait_for_words(first, "connected")
        second = visitor.open(CONSOLE)
        wait_for_words(second, "alice has this console open")
        second.get_by_role("button", name="Take it over").click()
        wait_for_words(second, "connected")
        wait_for_words(first, "alice has taken the console over")
        first.close()
        second.close()


def test_a_log_out_closes_the_console(visitor: Visitor, console_server: ConsoleServer) -> None:
    with line(console_server) as guest:
        page = visitor.log_in(path=CONSOLE)
        wait_for_words(page, "connected")
        other = visitor.open()
        other.get_by_role("button", name="Log out").click()
        wait_for_words(page, "The session has ended")
        lab.wait_until(lambda: not guest.connections, "the end of the connection")
        page.close()


def test_an_instance_that_does_not_run_can_be_started_on_the_page(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    console_server.cluster.run("gnt-instance", "shutdown", NAME)
    with line(console_server):
        page = visitor.log_in(path=CONSOLE)
        expect(page.get_by_text(f"{NAME} does not run, so it has no console")).to_be_visible()
        page.get_by_role("button", name="Start").click()
        wait_for_words(page, "connected")
        page.close()


def test_a_console_that_does_not_exist_is_refused_with_its_reason(visitor: Visitor) -> None:
    page = visitor.log_in(path=CONSOLE)
    wait_for_words(page, f"the fake instance {NAME} has no serial console")


def test_a_viewer_gets_no_console(visitor: Visitor, console_server: ConsoleServer) -> None:
    with line(console_server) as guest:
        page = visitor.log_in("bob", "two", path=CONSOLE)
        expect(page.get_by_text("that needs the role operator")).to_be_visible()
        assert guest.connections == []


def test_a_browser_without_web_sockets_reads_what_to_use(visitor: Visitor) -> None:
    visitor.context.add_init_script("delete window.WebSocket")
    page = visitor.log_in(path=CONSOLE)
    expect(page.get_by_text("This browser has no WebSocket")).to_be_visible()


def test_a_page_of_another_site_gets_no_console_with_the_cookie_of_this_one(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with line(console_server) as guest:
        page = visitor.log_in()
        token = page.evaluate("fetch('/2/session').then((answer) => answer.json()).then((about) => about.csrf)")
        open_one = f"""(origin) => new Promise((resolve) => {{
            const socket = new WebSocket(origin + "/2/instances/{NAME}/console/serial",
                ["gantry.console", "gantry.csrf.{token}"]);
            socket.onmessage = (event) => resolve(event.data);
            socket.onclose = () => resolve("closed");
        }})"""
        address = f"wss://localhost:{console_server.port}"
        assert json.loads(page.evaluate(open_one, address))["state"] == "open"
        foreign = visitor.context.new_page()
        foreign.route("https://evil.example/", lambda route: route.fulfill(body="<p>", content_type="text/html"))
        foreign.goto("https://evil.example/")
        assert foreign.evaluate(open_one, address) == "closed"
        foreign.close()
        page.close()
        lab.wait_until(lambda: not guest.connections, "the end of the connection")


def test_a_guest_that_prints_without_end_leaves_the_page_and_the_daemons_alone(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    assert console_server.daemon
    with line(console_server) as guest:
        page = visitor.log_in(path=CONSOLE)
        wait_for_words(page, "connected")
        lab.wait_until(lambda: bool(guest.connections), "the connection at the guest")
        before = _resident(console_server.daemon.pid)
        printed = 0

        def flood() -> None:
            nonlocal printed
            with contextlib.suppress(OSError):
                while True:
                    guest.say(b"0123456789abcdef" * 4096)
                    printed += 65536

        threading.Thread(target=flood, daemon=True).start()
        lab.wait_until(lambda: printed > 20 << 20, "20 MiB from the guest")
        assert _resident(console_server.daemon.pid) - before < 20 << 10
        page.get_by_role("button", name="Close").click()
        wait_for_words(page, "You have closed the console")
        page.close()


def _resident(pid: int) -> int:
    """Return the memory of a process in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])
