"""The pictures of the console in docs/reference/console.md: ``make console-pictures`` looks at each page in a browser.

The demonstration must be up (``make demo``), with the console of this checkout. Some instances and a webhook are added
to it, so that the pages have something to show, and removed again. Each page is taken in the light and the dark theme,
and at the width of a phone.
"""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tools.stages import ROOT

FOLDER = ROOT / "docs/_static/console"
CHROMIUM = "/usr/bin/chromium"
USER = "admin"
QUALITY = 80
SETTLE_MILLISECONDS = 1500
"""After the last request of a page: charts are drawn and meters have moved by then."""

FORMS = {"light": ("light", 1280, 800), "dark": ("dark", 1280, 800), "phone": ("light", 390, 800)}
"""Colour scheme, width and height of each form."""

PAGES = {
    "overview": "",
    "instances": "#/instances",
    "instance": "#/instances/hello.example",
    "create": "#/new-instance",
    "console": "#/instances/hello.example/console",
    "nodes": "#/nodes",
    "placement": "#/nodes?view=placement",
    "node": "#/nodes/node2",
    "networks": "#/networks",
    "network": "#/networks/demo?address=198.51.100.10",
    "addresses": "#/addresses?of=hello.example",
    "segments": "#/segments",
    "backups": "#/backups",
    "jobs": "#/jobs",
    "job": "#/jobs/6",
    "audit": "#/audit?object=hello.example",
    "settings": "#/settings",
    "tokens": "#/tokens",
    "webhooks": "#/webhooks",
}
RECEIVER_PORT = 8099
RECEIVER = f"""
import http.server
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", {RECEIVER_PORT}), Receiver).serve_forever()
"""
"""A program that accepts each event of a webhook."""
INSTANCES = (("web1.example", "node1", 192), ("web2.example", "node3", 128), ("db.example", "node3", 256))
STOPPED = "db.example"


def on_first_node(*command: str) -> str:
    """Run a command on the first node of the demonstration, and return what it prints."""
    done = subprocess.run([ROOT / "demo/shell", "1", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def instances() -> Iterator[None]:
    """Add the instances, and remove them again."""
    try:
        for name, node, memory in INSTANCES:
            options = ["--no-start"] if name == STOPPED else []
            words = ("-t", "file", "--disk", "0:size=64M", "-o", "busybox", "-B", f"memory={memory}", "-n", node)
            net = ("--net", "0:ip0=demo4,ip1=demo6,network=demo")
            on_first_node("gnt-instance", "add", *words, *net, *options, name)
        yield
    finally:
        for name, _, _ in INSTANCES:
            on_first_node("sh", "-c", f"gnt-instance remove -f --shutdown-timeout 0 {name} || true")


@contextmanager
def webhook() -> Iterator[None]:
    """Add a webhook with a receiver on the first node, and remove both again."""
    program = [str(ROOT / "demo/shell"), "1", "python3", "-c", RECEIVER]
    receiver = subprocess.Popen(program, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{RECEIVER_PORT}/hooks"
        on_first_node("gantry", "webhook", "add", "tickets", url, "--events", "instance,node,job.error")
        on_first_node("gantry", "webhook", "test", "tickets")
        yield
    finally:
        os.killpg(receiver.pid, signal.SIGTERM)  # with what the shell of the node has started
        receiver.wait()
        on_first_node("gantry", "webhook", "remove", "tickets")


def log_in(browser: Browser, address: str, *, scheme: str, width: int, height: int) -> Page:
    """Return a page of the console after a log-in."""
    (line,) = [line for line in on_first_node("cat", "/var/lib/gantry/users").splitlines() if line.startswith(USER)]
    context = browser.new_context(ignore_https_errors=True, viewport={"width": width, "height": height})
    page = context.new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address)
    page.get_by_label("User").fill(USER)
    page.get_by_label("Password").fill(line.split()[1])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("search").wait_for()
    return page


def type_on_the_line(page: Page) -> None:
    """Type a command into the serial line, so that the guest says something."""
    page.get_by_text("connected").wait_for()
    page.locator(".xterm").click()
    page.keyboard.type("\nip -4 addr show eth0\n", delay=20)
    page.get_by_role("heading", level=1).scroll_into_view_if_needed()


def take(page: Page, path: Path) -> None:
    """Write what the page shows as WebP, which needs a third of what PNG needs."""
    session = page.context.new_cdp_session(page)
    answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(answer["data"]))
    session.detach()


def main() -> None:
    """Write the pictures of all pages."""
    forwarding = Path(os.environ.get("DEMO_DIR", "/var/lib/gantry-demo")) / "console"
    if not forwarding.exists():
        sys.exit("the demonstration with its console is not up: make demo")
    address = f"https://127.0.0.1:{forwarding.read_text().split()[1]}/console/"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with instances(), webhook(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for form, (scheme, width, height) in FORMS.items():
            page = log_in(browser, address, scheme=scheme, width=width, height=height)
            for name, path in PAGES.items():
                page.goto(address + path)
                page.get_by_role("heading", level=1).wait_for()
                page.locator("main .loading").first.wait_for(state="detached")
                if name == "console":
                    type_on_the_line(page)
                page.wait_for_timeout(SETTLE_MILLISECONDS)
                take(page, FOLDER / f"{name}-{form}.webp")
                if name == "console":  # one page at a time has the line
                    page.get_by_role("button", name="Close", exact=True).click()
        browser.close()
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(PAGES) * len(FORMS)} pictures, {size / 1024:.0f} KiB, in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
