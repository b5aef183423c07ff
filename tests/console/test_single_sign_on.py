"""Log-ins to the console by a real OpenID provider, with a client that follows redirects and with a real browser."""

import dataclasses
import http.client
import http.cookiejar
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO, Literal
from urllib import parse

import pytest
from playwright.sync_api import Browser, Page, expect
from tests import ports
from tests.cluster import lab
from tests.console.conftest import AXE, TIMEOUT, ConsoleServer, Visitor, fill_in, serious_faults
from tests.oidc import server

pytestmark = pytest.mark.real

expect.set_options(timeout=TIMEOUT)

ACTION = re.compile(r'<form[^>]* action="([^"]+)"')


@dataclasses.dataclass
class Home:
    """A console with an OpenID provider."""

    console_server: ConsoleServer
    provider: server.Provider

    def logged(self) -> str:
        return "".join(path.read_text() for path in (self.console_server.cluster.master / "log").glob("rapi-*.log"))


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with lab.lab() as cluster:
        cluster.init()
        (cluster.master / "lib/users").write_text("alice one write\nbob two read\n")
        console_server = ConsoleServer(cluster, ports.free())
        with server.running(console_server.address) as provider:
            console_server.options = provider.options(console_server.address)
            console_server.start()
            yield Home(console_server, provider)
            console_server.stop()


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and notes where they lead."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        self.seen.append(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Client:
    """A client that keeps cookies and follows redirects, as a browser does, and fills in forms."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.cookies = http.cookiejar.CookieJar()
        self.redirects = Redirects()
        tls = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
        keeping = urllib.request.HTTPCookieProcessor(self.cookies)
        self.opener = urllib.request.build_opener(tls, keeping, self.redirects)

    def open(self, address: str, **form: str) -> tuple[str, str]:
        """Return the last address and the page."""
        with self.opener.open(address, parse.urlencode(form).encode() if form else None, timeout=60) as answer:
            return answer.url, answer.read().decode()

    def log_in(self, user: str, page: str = "") -> str:
        """Log in at the provider; return where that leads."""
        query = parse.urlencode({"to": page})
        address, content = self.open(f"{self.home.console_server.address}/2/session/oidc?{query}")
        address, content = self.open(parse.urljoin(address, _action(content)), prompt="login", login=user, password="x")
        if address.startswith(self.home.provider.issuer):
            address, _ = self.open(parse.urljoin(address, _action(content)), prompt="consent")
        return address

    def read(self, path: str) -> dict[str, object]:
        try:
            return dict(json.loads(self.open(self.home.console_server.address + path)[1]))
        except urllib.error.HTTPError as error:
            return {"code": error.code}


def _action(page: str) -> str:
    match = ACTION.search(page)
    assert match, page
    return match[1]


def test_a_real_provider_logs_people_in_with_its_groups(home: Home) -> None:
    home.console_server.cluster.run("gnt-cluster", "access", "add", "group:oidc:ops", "network-admin", "cluster")
    client = Client(home)
    assert client.log_in("ops", "#/networks") == f"{home.console_server.address}/console/#/networks"
    about = client.read("/2/session")
    assert (about["user"], about["may"]) == ("oidc:ops", "read")
    rules = about["rules"]
    assert isinstance(rules, list)
    assert [(rule["role"], rule["on"]) for rule in rules] == [("network-admin", "cluster")]
    other = Client(home)
    other.log_in("anna")
    assert other.read("/2/session")["rules"] == []
    admin = Client(home)
    admin.log_in("admin")
    assert admin.read("/2/session")["may"] == "write"
    home.console_server.cluster.run("gnt-cluster", "access", "remove", "group:oidc:ops")


def test_a_real_answer_counts_once_and_in_one_browser(home: Home) -> None:
    client, other = Client(home), Client(home)
    client.log_in("anna")
    (callback,) = [address for address in client.redirects.seen if "/2/session/oidc/callback?" in address]
    other.open(callback)
    assert other.read("/2/session") == {"code": 401}
    assert "this browser has not begun this log-in" in str(other.read("/2/session/methods")["failure"])
    client.cookies.clear("localhost.local", "/", "__Host-gantry-session")
    client.open(callback)
    assert client.read("/2/session") == {"code": 401}
    code = dict(parse.parse_qsl(parse.urlsplit(callback).query))["code"]
    assert code not in home.logged()
    assert server.SECRET not in home.logged()


@pytest.fixture
def visitor(browser: Browser, home: Home) -> Iterator[Visitor]:
    context = browser.new_context(ignore_https_errors=True)
    person = Visitor(context, home.console_server)
    yield person
    context.close()
    assert person.complaints == []


def log_in_at_provider(page: Page, user: str) -> None:
    """Fill in the provider's page, and let it pass on the user's names."""
    page.get_by_placeholder("Enter any login").fill(user)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_log_in_page_has_no_serious_fault_for_people_with_disabilities(
    visitor: Visitor, scheme: Literal["light", "dark"]
) -> None:
    visitor.context.add_init_script(path=AXE)
    page = visitor.open()
    page.emulate_media(color_scheme=scheme)
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_role("link", name="[ Cancel ]").click()
    page.get_by_text("The log-in failed:").wait_for()
    assert serious_faults(page) == []


def test_a_person_logs_in_with_the_button_and_logs_out_at_the_provider_too(visitor: Visitor, home: Home) -> None:
    page = visitor.open("#/nodes")
    page.get_by_role("link", name="Log in with Example").click()
    log_in_at_provider(page, "admin")
    page.get_by_role("heading", name="Nodes").wait_for()
    assert page.url == f"{home.console_server.address}/console/#/nodes"
    log_out = page.get_by_role("button", name="Log out")
    expect(log_out).to_contain_text("oidc:admin")
    log_out.click()
    page.get_by_role("button", name="Yes, sign me out").click()
    page.get_by_role("link", name="Log in with Example").wait_for()
    assert page.url.startswith(f"{home.console_server.address}/console/")
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_placeholder("Enter any login").wait_for()


def test_a_failure_is_on_the_log_in_page_once_and_passwords_go_on(visitor: Visitor) -> None:
    page = visitor.open()
    page.get_by_role("link", name="Log in with Example").click()
    page.get_by_role("link", name="[ Cancel ]").click()
    failure = page.get_by_text("The log-in failed: the OpenID provider did not let you log in.")
    failure.wait_for()
    page.reload()
    page.get_by_role("link", name="Log in with Example").wait_for()
    expect(failure).to_have_count(0)
    fill_in(page, "bob", "two")
    page.get_by_role("search").wait_for()


def test_over_a_page_whose_session_has_ended_the_log_in_is_in_another_tab(visitor: Visitor, home: Home) -> None:
    page = visitor.open("#/new-network")
    page.get_by_role("link", name="Log in with Example").click()
    log_in_at_provider(page, "admin")
    page.get_by_label("Name", exact=True).first.fill("kept")
    home.console_server.stop()
    home.console_server.start()
    again = page.get_by_role("dialog").get_by_role("link", name="Log in with Example")
    again.wait_for()
    with visitor.context.expect_page() as opened:
        again.click()
    tab = opened.value
    tab.get_by_role("search").wait_for()
    page.bring_to_front()
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Name", exact=True).first).to_have_value("kept")
