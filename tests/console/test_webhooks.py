"""The page of webhooks, in a real browser, with a receiver that checks signatures, fails, and comes back."""

import base64
import hashlib
import hmac
import http.server
import json
import re
import threading
from collections.abc import Iterator, Mapping

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.console.conftest import AXE, TIMEOUT, ConsoleServer, Visitor, serious_faults

pytestmark = pytest.mark.real

expect.set_options(timeout=TIMEOUT)

NONE = "There are no webhooks."


class Receiver(http.server.ThreadingHTTPServer):
    """A receiver that answers with ``status``; ``events`` are those whose signature ``secret`` explains."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 204
        self.secret = ""
        self.events: list[str] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{digest}" in headers["webhook-signature"].split(" ")


class Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.status == 204 and self.server.is_signed(dict(self.headers), body):
            self.server.events.append(json.loads(body)["type"])
        self.send_response(self.server.status)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


@pytest.fixture
def receiver(console_server: ConsoleServer) -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    for name in console_server.cluster.run("gantry", "webhook", "list", "--no-headers", "-o", "name").stdout.split():
        console_server.cluster.run("gantry", "webhook", "remove", name)


def add(page: Page, receiver: Receiver, *, events: str = "") -> str:
    """Add the webhook ``tickets`` by the dialog, and return the secret that is displayed."""
    page.get_by_role("button", name="Add webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("tickets")
    dialog.get_by_label("URL", exact=True).fill(f"{receiver.origin}/in?key=sesame")
    dialog.get_by_label("Events").fill(events)
    dialog.get_by_role("button", name="Add").click()
    return dialog.locator("code.secret").inner_text()


def press(page: Page, button: str, confirmation: str) -> None:
    part(page).get_by_role("button", name=button).click()
    page.get_by_role("dialog").get_by_role("button", name=confirmation, exact=True).click()


def part(page: Page) -> Locator:
    """Return the part of the page about the webhook."""
    return page.get_by_role("region", name="tickets", exact=True)


def close(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="Close").click()


def test_a_webhook_is_added_tested_changed_and_removed_and_its_secret_displayed_once(
    visitor: Visitor, receiver: Receiver
) -> None:
    page = visitor.log_in(path="#/settings")
    page.get_by_role("link", name="webhooks").click()
    expect(page.get_by_text(NONE)).to_be_visible()
    receiver.secret = first = add(page, receiver, events="network, job.error")
    assert first.startswith("whsec_")
    page.keyboard.press("Escape")
    expect(page.locator("code.secret")).to_be_visible()
    close(page)
    expect(part(page).locator(".badge")).to_have_text("delivers")
    expect(part(page)).to_contain_text(receiver.origin)
    expect(part(page)).to_contain_text("network, job.error")
    for hidden in (first, "sesame"):
        assert hidden not in page.content()
    press(page, "Test", "Send the test")
    expect(page.get_by_text("The receiver of webhook tickets has accepted the test")).to_be_visible()
    assert receiver.events[-1] == "gantry.webhook.changed"
    press(page, "New secret", "Make a new secret")
    receiver.secret = page.locator("code.secret").inner_text()
    assert receiver.secret not in ("", first)
    close(page)
    receiver.events.clear()
    press(page, "Test", "Send the test")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert receiver.events
    part(page).get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    dialog.get_by_label("Events").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(part(page).locator("dd").nth(1)).to_have_text("all")
    press(page, "Remove", "Remove")
    expect(page.get_by_text(NONE)).to_be_visible()


def test_a_receiver_that_fails_is_reported_and_goes_on_when_it_is_back(
    visitor: Visitor, console_server: ConsoleServer, receiver: Receiver
) -> None:
    receiver.status = 500
    page = visitor.log_in(path="#/webhooks")
    receiver.secret = add(page, receiver, events="network")
    close(page)
    badge = part(page).locator(".badge")
    expect(badge).to_have_text("fails")
    expect(part(page)).to_contain_text("has not accepted an event: status 500")
    expect(part(page)).to_contain_text(re.compile("Behind\\d+ change"))
    receiver.status = 410
    expect(badge).to_have_text("gone")
    expect(part(page)).to_contain_text("answered 410")
    receiver.status = 204
    press(page, "Enable", "Enable")
    expect(badge).to_have_text("delivers")
    assert receiver.events[0] == "gantry.webhook.added"
    press(page, "Disable", "Disable")
    expect(badge).to_have_text("disabled")
    expect(part(page).get_by_role("button", name="Test")).to_have_count(0)
    # A change by a command is in the page without a reload.
    console_server.cluster.run("gantry", "webhook", "modify", "tickets", "--enable")
    expect(badge).to_have_text("delivers")


def test_a_test_that_is_not_accepted_says_why(visitor: Visitor, receiver: Receiver) -> None:
    receiver.status = 503
    page = visitor.log_in(path="#/webhooks")
    add(page, receiver)
    close(page)
    press(page, "Test", "Send the test")
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_have_text("The receiver does not accept events: status 503", timeout=4 * TIMEOUT)


def test_a_webhook_that_is_refused_says_why_beside_what_was_typed(visitor: Visitor, receiver: Receiver) -> None:
    page = visitor.log_in(path="#/webhooks")
    page.get_by_role("button", name="Add webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("tickets")
    dialog.get_by_label("URL", exact=True).fill("http://192.0.2.1/sesame")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("has no TLS")
    dialog.get_by_label("Authorities").select_option("own")
    expect(dialog.get_by_role("button", name="Add")).to_be_disabled()
    dialog.get_by_label("Certificates").fill("-----BEGIN CERTIFICATE-----")
    dialog.get_by_label("Allow a URL without TLS").check()
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("are not certificates")
    dialog.get_by_label("Authorities").select_option("system")
    dialog.get_by_label("URL", exact=True).fill(f"{receiver.origin}/in")
    dialog.get_by_label("Events").fill("<img src=x>")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("events")
    dialog.get_by_label("Events").fill("")
    dialog.get_by_role("button", name="Add").click()
    expect(page.locator("code.secret")).to_be_visible()


def test_users_who_do_not_administer_the_cluster_find_no_webhooks(visitor: Visitor) -> None:
    page = visitor.log_in("bob", "two", path="#/settings")
    expect(page.get_by_role("link", name="API tokens")).to_be_visible()
    expect(page.get_by_role("link", name="webhooks")).to_have_count(0)
    page.goto(f"{visitor.console_server.address}/console/#/webhooks")
    expect(page.get_by_role("alert")).to_contain_text("user bob may not read the webhooks")
    expect(page.get_by_role("button", name="Add webhook")).to_have_count(0)


def test_webhooks_and_their_form_are_for_keyboards_phones_and_people_with_disabilities(
    visitor: Visitor, receiver: Receiver
) -> None:
    visitor.context.add_init_script(path=AXE)
    receiver.status = 500
    page = visitor.log_in(path="#/webhooks")
    add(page, receiver, events="instance, node, network, job.error, webhook")
    close(page)
    expect(part(page).locator(".badge")).to_have_text("fails")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    part(page).get_by_role("button", name="Change").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Authorities").select_option("own")
    dialog.get_by_label("URL", exact=True).fill("https://tickets.example/in")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert serious_faults(page) == [], scheme
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(part(page).get_by_role("button", name="Change")).to_be_focused()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert serious_faults(page) == [], scheme
