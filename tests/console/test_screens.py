"""The screen of an instance in a browser; the guest's VNC server is played by the tests, on a cluster of daemons."""

import contextlib
import os
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from playwright.sync_api import Page, expect
from tests.cluster import lab
from tests.console.conftest import TIMEOUT, ConsoleServer, Visitor

from gantry.runtime import paths

pytestmark = pytest.mark.real

NAME = "web2.example"
CONSOLE = f"#/instances/{NAME}/console?kind=vnc"
WIDTH, HEIGHT = 64, 48
PASSWORD = "secret"
RED = bytes([255, 0, 0, 0])
"""A pixel in the format that the page asks for."""
FORMAT = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)

expect.set_options(timeout=TIMEOUT)


class Screen(socketserver.ThreadingUnixStreamServer):
    """A VNC server (RFC 6143) with a password, whose screen is all red; it notes the keys that are pressed."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.keys: list[int] = []
        self.connections = 0
        super().__init__(str(path), Client)


class Client(socketserver.StreamRequestHandler):
    """A client of the screen."""

    server: Screen

    def handle(self) -> None:
        self.server.connections += 1
        with contextlib.suppress(EOFError, OSError):
            if self._admit():
                self._show()
        self.server.connections -= 1

    def _read(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _admit(self) -> bool:
        self.wfile.write(b"RFB 003.008\n")
        self._read(12)
        self.wfile.write(bytes([1, 2]))
        assert self._read(1) == b"\2"
        challenge = os.urandom(16)
        self.wfile.write(challenge)
        is_right = self._read(16) == answer(challenge)
        reason = b"wrong password"
        self.wfile.write(bytes(4) if is_right else struct.pack(">II", 1, len(reason)) + reason)
        return is_right

    def _show(self) -> None:
        self._read(1)
        name = b"guest"
        self.wfile.write(struct.pack(">HH", WIDTH, HEIGHT) + FORMAT + struct.pack(">I", len(name)) + name)
        has_shown = False
        while True:
            kind = self._read(1)[0]
            if kind == 0:
                self._read(19)
            elif kind == 2:
                (count,) = struct.unpack(">xH", self._read(3))
                self._read(4 * count)
            elif kind == 3:
                self._read(9)
                if not has_shown:  # later requests wait for a change
                    head = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0)
                    self.wfile.write(head + RED * (WIDTH * HEIGHT))
                    has_shown = True
            elif kind == 4:
                is_down, key = struct.unpack(">BxxI", self._read(7))
                if is_down:
                    self.server.keys.append(key)
            elif kind == 5:
                self._read(5)
            else:
                raise EOFError


def answer(challenge: bytes) -> bytes:
    """Return what the right password makes of a challenge: DES with the bits of each byte of the key reversed."""
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in PASSWORD.encode().ljust(8, b"\0"))
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()
    return encryptor.update(challenge) + encryptor.finalize()


@contextlib.contextmanager
def screen(console_server: ConsoleServer) -> Iterator[Screen]:
    """Play the VNC server of the instance; at the end nobody is connected to it."""
    [[node]] = console_server.cluster.rows("gnt-instance", "pnode", NAME)
    (root,) = (each.root for each in console_server.cluster.nodes if each.name == node)
    path = Path(paths.Paths.below(str(root)).instances) / "fake" / f".{NAME}.vnc"
    with Screen(path) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        try:
            yield served
            lab.wait_until(lambda: not served.connections, "the end of the connections to the screen")
        finally:
            served.shutdown()
            path.unlink()


def log_in(page: Page, password: str) -> None:
    page.get_by_label("VNC password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_the_guests_password_opens_its_screen_and_keys_reach_it(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with screen(console_server) as guest:
        page = visitor.log_in(path=CONSOLE)
        log_in(page, PASSWORD)
        canvas = page.get_by_role("application", name=f"Screen of {NAME}")
        expect(canvas).to_be_focused()
        page.wait_for_function(
            """() => {
                const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
                pixel.drawImage(document.querySelector(".screen canvas"), 0, 0);
                return pixel.getImageData(0, 0, 1, 1).data.join() === "255,0,0,255";
            }"""
        )
        page.keyboard.press("a")
        page.keyboard.press("Tab")
        lab.wait_until(lambda: guest.keys == [ord("a"), 0xFF09], "the keys at the guest")
        page.get_by_role("button", name="Send Ctrl-Alt-Del").click()
        lab.wait_until(lambda: guest.keys[2:] == [0xFFE3, 0xFFE9, 0xFFFF], "Ctrl-Alt-Del at the guest")
        canvas.focus()
        page.keyboard.press("Control+]")
        expect(page.get_by_role("button", name="Close")).to_be_focused()
        page.close()


def test_a_wrong_password_of_the_guest_is_refused_by_the_guest(visitor: Visitor, console_server: ConsoleServer) -> None:
    with screen(console_server):
        page = visitor.log_in(path=CONSOLE)
        log_in(page, "wrong")
        expect(page.get_by_text("The VNC server has refused the log-in: wrong password.")).to_be_visible()
        page.get_by_role("button", name="Connect again").click()
        log_in(page, PASSWORD)
        expect(page.get_by_role("application", name=f"Screen of {NAME}")).to_be_focused()
        page.close()


def test_a_screen_may_be_seen_by_several_and_closed_by_each(visitor: Visitor, console_server: ConsoleServer) -> None:
    with screen(console_server) as guest:
        first, second = visitor.log_in(path=CONSOLE), visitor.open(CONSOLE)
        for page in (first, second):
            log_in(page, PASSWORD)
            expect(page.get_by_role("application", name=f"Screen of {NAME}")).to_be_visible()
        assert guest.connections == 2
        first.get_by_role("button", name="Close").click()
        expect(first.get_by_text("You have closed the console")).to_be_visible()
        lab.wait_until(lambda: guest.connections == 1, "the end of one connection")
        first.close()
        second.close()


def test_an_instance_without_a_screen_says_so(visitor: Visitor) -> None:
    page = visitor.log_in(path=f"#/instances/{NAME}/console")
    page.get_by_role("link", name="Screen").click()
    expect(page.get_by_role("alert")).to_contain_text(f"the fake instance {NAME} has no vnc console")
    page.get_by_role("link", name="Serial line").click()
    expect(page.get_by_role("alert")).to_contain_text(f"the fake instance {NAME} has no serial console")
