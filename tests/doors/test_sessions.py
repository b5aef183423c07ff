"""Sessions of people in a browser: how they begin, what they allow, and each way in which they end."""

import dataclasses
import json
from collections.abc import Iterator

import pytest

from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.http import sessions
from gantry.runtime import http_interface
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
TEXT = b"alice one write\nbob two read\ncarol three\n"


@dataclasses.dataclass
class Browser:
    """What a browser keeps: the cookie, and the page's token. ``server`` is that of the remote API."""

    lab: cluster.SimulatedCluster
    server: http.Server
    cookie: str = ""
    token: str = ""

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> http_interface.Response:
        """Send a request as a page does; a header of the same name replaces that of the page."""
        sent = {"content-type": "application/json", "cookie": self.cookie, sessions.HEADER: self.token}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else json.dumps(body).encode()
        request = http_interface.Request(method, path, content, {name: text for name, text in sent.items() if text})
        response = self.lab.run(self.server.answer(request))
        if "Set-Cookie" in response.headers:
            self.cookie = response.headers["Set-Cookie"].partition(";")[0]
        return response

    def log_in(self, user: str = "alice", password: str = "one") -> http_interface.Response:
        response = self.ask("POST", "/2/session", {"user": user, "password": password})
        if response.status == 200:
            self.token = json.loads(response.body)["csrf"]
        return response

    def wait(self, seconds: float) -> None:
        self.lab.run(self.lab.master.clock.sleep(seconds))


@pytest.fixture
def browser(lab: cluster.SimulatedCluster) -> Iterator[Browser]:
    lab.run(lab.master.disk.write(USERS, TEXT))
    yield Browser(lab, remote.server(lab.master, cluster.FOLDERS))
    lab.run(lab.master.disk.remove(USERS))


@pytest.mark.parametrize(
    ("user", "password", "may"), [("alice", "one", "write"), ("bob", "two", "read"), ("carol", "three", "")]
)
def test_a_session_says_whose_it_is_and_what_the_user_may_do(
    browser: Browser, user: str, password: str, may: str
) -> None:
    begun = browser.log_in(user, password)
    about = json.loads(begun.body)
    assert (about["user"], about["may"]) == (user, may)
    assert json.loads(browser.ask("GET", "/2/session").body) == about
    assert begun.headers["Cache-Control"] == "no-store"


def test_a_session_may_what_its_user_may(browser: Browser) -> None:
    browser.log_in("bob", "two")
    assert browser.ask("GET", "/2/query/node?fields=name").status == 200
    assert browser.ask("PUT", "/2/tags?tag=x").status == 403
    browser.log_in()
    assert browser.ask("PUT", "/2/tags?tag=x&dry-run=1").status == 200


def test_a_cookie_is_for_this_host_alone_and_out_of_reach_for_scripts(
    lab: cluster.SimulatedCluster, browser: Browser
) -> None:
    attributes = browser.log_in().headers["Set-Cookie"].split("; ")
    assert attributes[0].startswith("__Host-gantry-session=")
    assert attributes[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    plain = Browser(lab, remote.server(lab.master, cluster.FOLDERS, with_tls=False))
    assert plain.log_in().headers["Set-Cookie"].split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]


def test_a_change_needs_the_token_of_the_session(browser: Browser) -> None:
    browser.log_in()
    other = Browser(browser.lab, browser.server)
    other.log_in()
    for token in ("", "x", other.token):
        assert browser.ask("PUT", "/2/tags?tag=x", **{sessions.HEADER: token}).status == 403
        assert browser.ask("DELETE", "/2/session", **{sessions.HEADER: token}).status == 403
    assert browser.ask("GET", "/2/session", **{sessions.HEADER: ""}).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_changes_nothing_even_with_a_password_that_the_browser_keeps(
    browser: Browser, site: str
) -> None:
    password = "Basic YWxpY2U6b25l"
    assert browser.ask("POST", "/2/instances/vm1/reboot", authorization=password, sec_fetch_site=site).status == 403
    assert browser.ask("POST", "/2/session", {"user": "alice", "password": "one"}, sec_fetch_site=site).status == 403
    assert browser.ask("GET", "/2/info", authorization=password, sec_fetch_site=site).status == 200
    assert (
        browser.ask("PUT", "/2/tags?tag=x&dry-run=1", authorization=password, sec_fetch_site="same-origin").status
        == 200
    )


def test_only_a_page_is_not_asked_for_a_password_by_the_browser(browser: Browser) -> None:
    for headers in ({sessions.HEADER: "x"}, {"sec_fetch_mode": "cors"}):
        answer = browser.ask("GET", "/2/events", accept="text/event-stream", **headers)
        assert (answer.status, "WWW-Authenticate" in answer.headers) == (401, False)
    for headers in ({}, {"sec_fetch_mode": "navigate"}):
        assert "WWW-Authenticate" in browser.ask("GET", "/2/info", **headers).headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"user": "alice", "password": "wrong"}, 401),
        ({"user": "nobody", "password": "one"}, 401),
        ({"user": "alice"}, 400),
        ({"user": "alice", "password": "one", "more": 1}, 400),
        (["alice", "one"], 400),
        (None, 400),
    ],
)
def test_a_log_in_that_is_not_right_begins_no_session(browser: Browser, body: object, status: int) -> None:
    answer = browser.ask("POST", "/2/session", body)
    assert (answer.status, "Set-Cookie" in answer.headers) == (status, False)
    assert browser.ask("GET", "/2/session").status == 401


def test_a_session_ends_by_a_log_out(browser: Browser) -> None:
    browser.log_in()
    cookie = browser.cookie
    ended = browser.ask("DELETE", "/2/session")
    assert (ended.status, "Max-Age=0" in ended.headers["Set-Cookie"]) == (200, True)
    assert browser.ask("GET", "/2/session", cookie=cookie).status == 401


def test_a_session_ends_when_it_is_not_used_and_at_the_latest_after_some_hours(browser: Browser) -> None:
    browser.log_in()
    browser.wait(sessions.IDLE_SECONDS - 1)
    assert browser.ask("GET", "/2/session").status == 200
    browser.wait(sessions.IDLE_SECONDS + 1)
    assert browser.ask("GET", "/2/session").status == 401
    browser.log_in()
    for _ in range(round(sessions.LONGEST_SECONDS / sessions.IDLE_SECONDS) * 2 - 1):
        browser.wait(sessions.IDLE_SECONDS / 2)
        assert browser.ask("GET", "/2/session").status == 200
    browser.wait(sessions.IDLE_SECONDS / 2)
    assert browser.ask("GET", "/2/session").status == 401


def test_an_open_stream_of_events_keeps_its_session_and_ends_with_it(browser: Browser) -> None:
    browser.log_in()
    pieces = browser.ask("GET", "/2/events").pieces
    assert pieces
    end = browser.lab.master.clock.monotonic() + 2 * sessions.IDLE_SECONDS
    while browser.lab.master.clock.monotonic() < end:
        browser.lab.run(anext(pieces))
    assert browser.ask("GET", "/2/session").status == 200
    browser.ask("DELETE", "/2/session")

    async def remaining() -> list[bytes]:
        return [piece async for piece in pieces]

    assert browser.lab.run(remaining()) == []


@pytest.mark.parametrize("text", [b"", b"alice other write\n", b"alice one read\n", b"alice one write\n"])
def test_a_session_ends_when_its_user_changes(browser: Browser, text: bytes) -> None:
    browser.log_in()
    browser.wait(2)
    browser.lab.run(browser.lab.master.disk.write(USERS, text))
    assert browser.ask("GET", "/2/session").status == (200 if text == b"alice one write\n" else 401)


def test_a_user_with_many_sessions_loses_the_one_that_was_used_last_the_longest_time_ago(browser: Browser) -> None:
    browsers = [Browser(browser.lab, browser.server) for _ in range(sessions.USER_LIMIT + 1)]
    bob = Browser(browser.lab, browser.server)
    bob.log_in("bob", "two")
    for each in browsers[:-1]:
        each.wait(1)
        each.log_in()
    browsers[0].ask("GET", "/2/session")
    browsers[-1].log_in()
    lost = [number for number, each in enumerate(browsers) if each.ask("GET", "/2/session").status == 401]
    assert (lost, bob.ask("GET", "/2/session").status) == ([1], 200)


def test_a_cookie_of_another_application_on_the_host_does_no_harm(browser: Browser) -> None:
    browser.log_in()
    assert browser.ask("GET", "/2/session", cookie=f'x="a; b"; ={browser.cookie}; {browser.cookie}; y').status == 200
    assert browser.ask("GET", "/2/session", cookie="__Host-gantry-session=; x").status == 401
