"""The page of API tokens, in a real browser: a token is displayed once, works, and is revoked."""

import ssl
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Page, expect
from tests.console.conftest import TIMEOUT, ConsoleServer, Visitor

pytestmark = pytest.mark.real

expect.set_options(timeout=TIMEOUT)


def status(console_server: ConsoleServer, token: str, method: str, path: str) -> int:
    """Return the status of a request with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{console_server.address}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def create(page: Page, name: str) -> str:
    """Fill in the dialog for a token that reads, and return the text that is displayed."""
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Create").click()
    return dialog.locator("code.secret").inner_text()


def test_a_token_is_displayed_once_works_and_is_revoked(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in("bob", "two", path="#/settings")
    page.get_by_role("link", name="API tokens").click()
    expect(page.get_by_text("There are no tokens.")).to_be_visible()
    token = create(page, "watch")
    assert token.startswith("gantry_")
    page.keyboard.press("Escape")
    expect(page.locator("code.secret")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="watch")
    expect(row).to_contain_text("read")
    expect(row).to_contain_text(token[7:17])
    assert token[18:] not in page.content()
    assert status(console_server, token, "GET", "/2/info") == 200
    assert status(console_server, token, "PUT", "/2/instances/web1.example/shutdown") == 403
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("There are no tokens.")).to_be_visible()
    assert status(console_server, token, "GET", "/2/info") == 401


def test_a_token_that_is_refused_says_why_beside_what_was_typed(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in("bob", "two", path="#/tokens")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("<img src=x>")
    dialog.get_by_label("Allows").select_option("roles")
    dialog.get_by_label("On", exact=True).fill("instance:nothing")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("name")
    dialog.get_by_label("Name").fill("ci")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no such instance: nothing")
    dialog.get_by_label("On", exact=True).fill("instance:web1.example")
    dialog.get_by_role("button", name="Create").click()
    expect(page.locator("code.secret")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("row").filter(has_text="ci")).to_contain_text("operator on instance:web1.example")
    # A change by a command is in the page without a reload.
    console_server.cluster.run("gantry", "token", "revoke", "--user", "bob", "--all")
    expect(page.get_by_text("There are no tokens.")).to_be_visible()
