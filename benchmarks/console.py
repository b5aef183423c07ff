"""The console, in Debian's Chromium, on a cluster of ten nodes with guests that pretend to run.

Browser, remote API, master and nodes share the machine's processors. Pages that are only counted are not browsers: each
sends what a page of the console sends, as a browser sent it before, and holds its event stream.

    overview     from the navigation to the frame that shows it whole, with nothing in the browser's cache; and the
                 bytes that were transferred until then
    filter       from a key to the last frame that it changes
    event        from the submission of the job that stops an instance to the frame that shows it as stopped
    pages        what the API daemon's memory grows by; and from the submission of such a job to the moment at which the
                 slowest page has read again what changed
    scrape       GET /metrics
"""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, Page, Request, StorageState
from tests import ports
from tests.cluster import lab
from tests.console.conftest import CHROMIUM, USERS, ConsoleServer, chromium, fill_in

from benchmarks.figure import Figure, resident_megabytes, timed
from gantry.doors import console

NODES = 10
SCRAPED, DISPLAYED, FILTERED = 1_000, 5_000, 50_000
PAGES = 200
ROUNDS = 5
PART = 1_000
"""Instances that are submitted together."""

GATHER_SECONDS = 0.1
"""A page waits so long for further changes before it reads again what changed (``console/src/store.ts``)."""

NO_CHECK = ssl._create_unverified_context()

# Both note the moment after a frame: what was changed before it is on the screen.
WHEN_PAINTED = """
(text) => new Promise((resolve) => {
  const look = () => {
    if (!document.querySelector("main")?.textContent.includes(text)) return;
    observer.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => resolve(performance.timeOrigin + performance.now());
      port2.postMessage(null);
    });
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, characterData: true });
  look();
})
"""
MEASURE_KEYS = """
() => {
  let begin = 0;
  window.keys = [];
  const note = () => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { window.keys[window.keys.length - 1] = performance.now() - begin; };
    port2.postMessage(null);
  });
  addEventListener("input", (event) => { begin = event.timeStamp; window.keys.push(0); note(); }, { capture: true });
  new MutationObserver(note).observe(document.querySelector("main table"), { subtree: true, childList: true });
}
"""


@dataclass(frozen=True)
class PageRequest:
    """A request of a page, as the browser sent it."""

    method: str
    path: str
    body: str | None


class Wire:
    """The requests that a page of the browser sends to the remote API."""

    def __init__(self, page: Page, address: str) -> None:
        self.requests: list[PageRequest] = []
        self._address = address
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        path = request.url.removeprefix(self._address)
        if path.startswith("/2/") and not path.startswith("/2/events"):
            self.requests.append(PageRequest(request.method, path, request.post_data))


class CountedPage:
    """A page that no browser shows: the requests of its beginning, then its event stream. Each has its own address."""

    def __init__(
        self, number: int, port: int, headers: dict[str, str], opening: list[PageRequest], after: list[PageRequest]
    ) -> None:
        self._address, self._port = f"127.0.1.{number + 1}", port
        self._headers, self._after = headers, after
        self._requests, self._stream = self._connect(), self._connect()
        self._stream.request("GET", "/2/events", headers=headers)
        self._events = self._stream.getresponse()
        if self._events.status != 200:
            raise RuntimeError(f"the event stream: {self._events.status} {self._events.read()!r}")
        for each in opening:
            self._ask(each)
        self.read = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=NO_CHECK, timeout=120, source_address=(self._address, 0)
        )

    def _ask(self, request: PageRequest) -> None:
        try:
            status, content = self._exchange(request)
        except (ConnectionError, ssl.SSLEOFError):
            # The server closes a connection that is idle, as while other pages are opened. A browser opens another.
            self._requests.close()
            status, content = self._exchange(request)
        if status != 200:
            raise RuntimeError(f"{request.method} {request.path}: {status} {content!r}")

    def _exchange(self, request: PageRequest) -> tuple[int, bytes]:
        headers = {**self._headers, "Content-Type": "application/json", "Accept-Encoding": "gzip"}
        self._requests.request(request.method, request.path, request.body, headers)
        answer = self._requests.getresponse()
        return answer.status, answer.read()

    def _follow(self) -> None:
        """Read again what the browser read again, whenever a job has ended."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while line := self._events.readline():
                if line.startswith(b"data:") and b'"success"' in line:
                    time.sleep(GATHER_SECONDS)
                    for each in self._after:
                        self._ask(each)
                    self.read.release()

    def close(self) -> None:
        self._stream.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._stream.close()
        self._requests.close()


@contextlib.contextmanager
def _server() -> Iterator[ConsoleServer]:
    with lab.lab() as cluster:
        cluster.init("--candidate-pool-size", "1")
        for _ in range(NODES - 1):
            cluster.add_node()
        pool = ("--subnet", "10.0.0.0/8", "--pool", "10.1.0.0-10.9.255.255,name=guests")
        cluster.run("gnt-network", "add", "--force", *pool, "guests")
        cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", "guests", "default")
        (cluster.master / "lib/users").write_text(USERS)
        server = ConsoleServer(cluster, ports.free())
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _grow(cluster: lab.Lab, first: int, end: int) -> None:
    """Create instances that run, a thousand at a time."""
    create = {
        "OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "nics": [{"network": "guests", "ip": "pool"}],
    }  # fmt: skip
    with cluster.luxi() as luxi:
        for begin in range(first, end, PART):
            luxi.exchange("AutoArchiveJobs", -1, 600)
            jobs = [
                [{**create, "instance_name": f"vm{number:05}.example", "pnode": f"node{number % NODES + 1}"}]
                for number in range(begin, min(begin + PART, end))
            ]
            answer = luxi.value("SubmitManyJobs", jobs)
            assert isinstance(answer, list)
            for _, job in answer:
                _check_end(luxi, job)


def _check_end(luxi: lab.Luxi, job: object) -> None:
    status, result = luxi.finished(job)
    if status != "success":
        raise RuntimeError(f"job {job}: {status}: {result}")


def _power(luxi: lab.Luxi, kind: str, number: int) -> float:
    """Stop or start an instance; return the moment of the submission, in seconds since 1970."""
    begin = time.time()
    _check_end(
        luxi, luxi.value("SubmitJob", [{"OP_ID": f"OP_INSTANCE_{kind}", "instance_name": f"vm{number:05}.example"}])
    )
    return begin


def _log_in(browser: Browser, server: ConsoleServer) -> StorageState:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(f"{server.address}/console/")
    fill_in(page, "alice", "one")
    page.get_by_role("search").wait_for()
    state = context.storage_state()
    context.close()
    return state


@contextlib.contextmanager
def _context(browser: Browser, state: StorageState) -> Iterator[BrowserContext]:
    """A browser with the cookies of a session, and nothing in its cache."""
    context = browser.new_context(ignore_https_errors=True, storage_state=state)
    try:
        yield context
    finally:
        context.close()


def _paint(browser: Browser, state: StorageState, server: ConsoleServer) -> tuple[float, float, float]:
    """Return the milliseconds to the first content and to the whole overview, and the kilobytes transferred."""
    with _context(browser, state) as context:
        page = context.new_page()
        sizes: list[float] = []
        wire = context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page.goto(f"{server.address}/console/", wait_until="commit")
        whole = page.evaluate(WHEN_PAINTED, f"{DISPLAYED:,} instances") - page.evaluate("performance.timeOrigin")
        first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        return first, whole, sum(sizes) / 1e3


def _overview(browser: Browser, state: StorageState, server: ConsoleServer) -> Iterable[Figure]:
    samples = [_paint(browser, state, server) for _ in range(ROUNDS)]
    first, whole, kilobytes = zip(*samples, strict=True)
    name = f"console: overview of {DISPLAYED:,} instances"
    yield Figure(f"{name}, first content on the screen", "ms", first, 1000)
    yield Figure(f"{name}, whole on the screen", "ms", whole, 1000, goal=True)
    yield Figure(f"{name}, transferred", "KB", kilobytes, 400)


def _events(browser: Browser, state: StorageState, server: ConsoleServer) -> Iterable[Figure]:
    samples = []
    with _context(browser, state) as context, server.cluster.luxi() as luxi:
        page = context.new_page()
        for number in range(ROUNDS):
            page.goto(f"{server.address}/console/#/instances/vm{number:05}.example")
            page.evaluate(WHEN_PAINTED, "running")
            page.get_by_title("read everything again").get_by_text("live").wait_for()
            page.evaluate(f"() => {{ window.seen = ({WHEN_PAINTED})('stopped'); }}")
            begin = _power(luxi, "SHUTDOWN", number)
            samples.append(page.evaluate("window.seen") - begin * 1e3)
            _power(luxi, "STARTUP", number)
    yield Figure(
        f"console: an instance of {DISPLAYED:,} stops, from the job's submission to the screen", "ms", samples, 300
    )


def _pages(browser: Browser, state: StorageState, server: ConsoleServer) -> Iterable[Figure]:
    opening, after = _recorded(browser, state, server)
    cookies = "; ".join(f"{each['name']}={each['value']}" for each in state["cookies"])
    headers = {"Cookie": cookies, "Accept": "application/json", "X-Gantry-CSRF": _csrf(server, cookies)}
    assert server.daemon
    before = resident_megabytes(server.daemon.pid)
    pages = [CountedPage(number, server.port, headers, opening, after) for number in range(PAGES)]
    grown = resident_megabytes(server.daemon.pid) - before
    delays = []
    with server.cluster.luxi() as luxi:
        for number in range(ROUNDS):
            for kind in ("SHUTDOWN", "STARTUP"):
                begin = _power(luxi, kind, number)
                for page in pages:
                    if not page.read.acquire(timeout=60):
                        raise RuntimeError("a page did not follow")
                delays.append(time.time() - begin)
    for page in pages:
        page.close()
    yield Figure(f"console: memory of the API daemon for {PAGES} pages of {DISPLAYED:,} instances", "MB", [grown], 80)
    yield Figure(f"console: the slowest of {PAGES} pages is current again", "s", delays, 1, goal=True)


def _recorded(
    browser: Browser, state: StorageState, server: ConsoleServer
) -> tuple[list[PageRequest], list[PageRequest]]:
    """Return what the overview asks when it is opened, and when an instance has stopped."""
    with _context(browser, state) as context, server.cluster.luxi() as luxi:
        page = context.new_page()
        wire = Wire(page, server.address)
        page.goto(f"{server.address}/console/", wait_until="commit")
        page.evaluate(WHEN_PAINTED, f"{DISPLAYED:,} instances")
        page.wait_for_timeout(1000)
        opening = list(wire.requests)
        wire.requests.clear()
        _power(luxi, "SHUTDOWN", 0)
        page.wait_for_timeout(2000)
        after = list(wire.requests)
        _power(luxi, "STARTUP", 0)
        return opening, after


def _csrf(server: ConsoleServer, cookies: str) -> str:
    connection = http.client.HTTPSConnection("localhost", server.port, context=NO_CHECK)
    connection.request("GET", "/2/session", headers={"Cookie": cookies})
    token = json.loads(connection.getresponse().read())["csrf"]
    connection.close()
    return str(token)


def _filter(browser: Browser, state: StorageState, server: ConsoleServer) -> Iterable[Figure]:
    with _context(browser, state) as context:
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{server.address}/console/#/instances")
        page.evaluate(WHEN_PAINTED, f"{FILTERED:,} instances")
        # Texts to search in are made in the browser's idle time.
        page.wait_for_timeout(5000)
        page.evaluate(MEASURE_KEYS)
        box = page.get_by_label("Filter instances")
        box.focus()
        for text in ("vm12345", "node7", "10.3.1"):
            for key in text:
                page.keyboard.press(key)
                page.wait_for_timeout(250)
            for _ in text:
                page.keyboard.press("Backspace")
                page.wait_for_timeout(250)
        keys = page.evaluate("window.keys")
    yield Figure(f"console: a key in the filter of {FILTERED:,} instances", "ms", keys, 100)
    yield Figure(f"console: a key in the filter of {FILTERED:,} instances, the slowest", "ms", [max(keys)])


def _scrape(server: ConsoleServer) -> Iterable[Figure]:
    connection = http.client.HTTPSConnection("localhost", server.port, context=NO_CHECK)
    headers = {"Authorization": f"Basic {base64.b64encode(b'bob:two').decode()}"}

    def scrape() -> None:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200 or b"gantry_instances" not in content:
            raise RuntimeError(f"/metrics: {answer.status} {content[:200]!r}")

    samples = timed(scrape, rounds=15)
    connection.close()
    yield Figure(f"console: a scrape of {SCRAPED:,} instances", "ms", samples, 100)


def figures() -> Iterable[Figure]:
    if not console.built_files() or not CHROMIUM.exists():
        print("console: left out, it is not built or there is no Chromium: make console system", flush=True)
        return
    with _server() as server, chromium() as browser:
        _grow(server.cluster, 0, SCRAPED)
        yield from _scrape(server)
        _grow(server.cluster, SCRAPED, DISPLAYED)
        state = _log_in(browser, server)
        for measure in (_overview, _events, _pages):
            yield from measure(browser, state, server)
        _grow(server.cluster, DISPLAYED, FILTERED)
        yield from _filter(browser, state, server)


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"console": figures}
