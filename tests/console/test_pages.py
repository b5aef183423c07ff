"""What a person does in the console, in a real browser, on a cluster of daemons."""

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.console.conftest import AXE, TIMEOUT, ConsoleServer, Visitor, fill_in, serious_faults

pytestmark = pytest.mark.real

PAGES = (
    "",
    "#/instances",
    "#/instances/web1.example",
    "#/instances/web1.example/console",
    "#/nodes",
    "#/nodes?view=placement",
    "#/nodes/node1",
    "#/networks",
    "#/networks/net1",
    "#/new-instance",
    "#/new-network",
    "#/networks/net1?address=192.0.2.13",
    "#/ports",
    "#/segments",
    "#/backups",
    "#/settings",
    "#/audit",
    "#/tokens",
    "#/webhooks",
    "#/jobs",
    "#/jobs/1",
    "#/addresses?of=192.0.2.10",
)

expect.set_options(timeout=TIMEOUT)


def row(page: Page, name: str) -> Locator:
    """Return the row of an object in the list of a page."""
    return page.locator("main").get_by_role("row").filter(has=page.get_by_role("link", name=name))


def wait_for_badge(page: Page, word: str) -> None:
    """Wait for the status in the head of a page, such as that of an instance."""
    expect(page.locator("header.head .badge")).to_have_text(word)


def wait_for_connection(page: Page, word: str) -> None:
    expect(page.get_by_role("banner").get_by_title("read everything again")).to_have_text(word)


@pytest.mark.round
def test_a_wrong_password_is_explained_and_the_right_one_opens_the_overview(visitor: Visitor) -> None:
    page = visitor.open()
    fill_in(page, "alice", "wrong")
    expect(page.get_by_role("alert")).to_have_text("wrong user name or password")
    fill_in(page, "alice", "one")
    expect(page.get_by_role("link", name="Gantry lab.example")).to_be_visible()
    wait_for_connection(page, "live")


@pytest.mark.round
def test_an_instance_is_stopped_and_started_and_the_page_follows(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in(path="#/instances/web1.example")
    wait_for_badge(page, "running")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    wait_for_badge(page, "stopped")
    assert console_server.cluster.rows("gnt-instance", "name,status", "web1.example") == [
        ["web1.example", "ADMIN_down"]
    ]
    console_server.cluster.run("gnt-instance", "startup", "web1.example")
    wait_for_badge(page, "running")


def test_a_list_is_filtered_as_one_types_and_a_link_has_the_filter(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/instances")
    for name in ("web1.example", "web2.example", "web3.example"):
        expect(row(page, name)).to_be_visible()
    page.get_by_role("searchbox", name="Filter").fill("web2")
    expect(row(page, "web1.example")).to_have_count(0)
    expect(row(page, "web2.example")).to_be_visible()
    expect(page).to_have_url(re.compile("web2"))
    again = visitor.open(page.url.partition("/console/")[2])
    expect(row(again, "web2.example")).to_be_visible()
    expect(row(again, "web1.example")).to_have_count(0)


def test_a_link_counts_also_when_a_filter_settles_after_it(visitor: Visitor) -> None:
    # A busy browser says late that the address is another one: here when the test lets it.
    visitor.context.add_init_script(
        """addEventListener("hashchange", (event) => { if (event.isTrusted) event.stopImmediatePropagation(); })"""
    )
    page = visitor.log_in(path="#/instances")
    page.get_by_role("link", name="New instance").click()
    page.get_by_role("searchbox", name="Filter").fill("web1")
    expect(row(page, "web2.example")).to_have_count(0)
    page.wait_for_timeout(1_000)
    page.evaluate("""dispatchEvent(new HashChangeEvent("hashchange"))""")
    expect(page.get_by_role("heading", level=1)).to_have_text("New instance")
    assert page.url.endswith("#/new-instance")


def test_selected_instances_are_stopped_together_after_a_question(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in(path="#/instances")
    for name in ("web2.example", "web3.example"):
        page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_count(2)
    dialog.get_by_role("button", name=re.compile("^Stop")).click()
    for name in ("web2.example", "web3.example"):
        expect(row(page, name)).to_contain_text("stopped")
    console_server.cluster.run("gnt-instance", "startup", "--force-multiple", "web2.example", "web3.example")
    for name in ("web2.example", "web3.example"):
        expect(row(page, name)).to_contain_text("running")


def test_a_job_is_watched_until_its_end(visitor: Visitor, console_server: ConsoleServer) -> None:
    with console_server.cluster.luxi() as luxi:
        op = {"OP_ID": "OP_TEST_DELAY", "duration": 4, "on_master": True, "on_nodes": []}
        number = luxi.value("SubmitJob", [op])
    page = visitor.log_in(path=f"#/jobs/{number}")
    wait_for_badge(page, "running")
    wait_for_badge(page, "success")


def test_a_job_is_canceled(visitor: Visitor, console_server: ConsoleServer) -> None:
    with console_server.cluster.luxi() as luxi:
        op = {"OP_ID": "OP_TEST_DELAY", "duration": 60, "on_master": True, "on_nodes": []}
        number = luxi.value("SubmitJob", [op])
        page = visitor.log_in(path=f"#/jobs/{number}")
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        wait_for_badge(page, "canceled")
        assert luxi.value("QueryJobs", [number], ["status"]) == [["canceled"]]


def test_a_job_that_waits_says_for_what(visitor: Visitor, console_server: ConsoleServer) -> None:
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 600, "on_master": False, "on_nodes": ["node1"]}
    with console_server.cluster.luxi() as luxi:
        first, second, third = (luxi.value("SubmitJob", [op]) for _ in range(3))
        page = visitor.log_in(path="#/jobs")
        page.get_by_text("2 jobs wait for locks of others").click()
        root = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=f"Job {first}")).first
        expect(root).to_contain_text(f"Job {second}")
        expect(root).to_contain_text("waits for node node1")
        page.get_by_role("link", name=f"Job {third}").first.click()
        expect(page.get_by_role("heading", name="It waits for")).to_be_visible()
        expect(page.get_by_text("which has node node1").first).to_be_visible()
        for number in (first, second, third):
            luxi.value("CancelJob", number, True)
        wait_for_badge(page, "canceled")
        expect(page.get_by_role("heading", name="It waits for")).to_have_count(0)


def test_an_instance_is_removed_only_when_its_name_is_typed(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "gone.example"
    )
    page = visitor.log_in(path="#/instances/gone.example")
    page.get_by_role("button", name="Remove").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Remove the instance")
    expect(confirm).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill("gone.example")
    confirm.click()
    page.goto(f"{console_server.address}/console/#/instances/gone.example")
    expect(page.get_by_text("There is no instance named gone.example")).to_be_visible()
    assert "gone.example" not in console_server.cluster.run("gnt-instance", "list").stdout


def test_a_viewer_sees_everything_and_finds_nothing_to_press(visitor: Visitor) -> None:
    page = visitor.log_in("bob", "two", path="#/instances/web1.example")
    wait_for_badge(page, "running")
    for name in ("Start", "Stop", "Reboot", "Migrate", "Remove"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto(page.url.partition("#")[0] + "#/instances")
    expect(row(page, "web1.example")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)


def test_an_operator_of_an_instance_finds_what_the_rule_allows_and_no_more(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    rule = ("user:dora", "operator", "instance:web2.example")
    console_server.cluster.run("gnt-cluster", "access", "add", *rule)
    try:
        page = visitor.log_in("dora", "four", path="#/instances/web2.example")
        for name, count in {"Start": 1, "Stop": 1, "Reboot": 1, "Migrate": 0, "Remove": 0}.items():
            expect(page.get_by_role("button", name=name)).to_have_count(count)
        page.goto(page.url.partition("#")[0] + "#/instances/web1.example")
        wait_for_badge(page, "running")
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        page.goto(page.url.partition("#")[0] + "#/instances")
        for name in ("web1.example", "web2.example"):
            row(page, name).get_by_role("checkbox").check()
        expect(page.get_by_text("1 selected")).to_be_visible()
    finally:
        console_server.cluster.run("gnt-cluster", "access", "remove", *rule)


def test_the_audit_says_who_did_what_and_readers_do_not_get_it(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run("gnt-instance", "modify", "-B", "maxmem=192", "web1.example")
    page = visitor.log_in(path="#/jobs")
    page.get_by_role("link", name="the audit").click()
    entry = page.get_by_role("row", name="Modify instance web1.example").first
    expect(entry).to_contain_text("beparams.maxmem:")
    expect(entry).to_contain_text("→ 192")
    page.get_by_label("Object").fill("web2.example")
    page.get_by_role("button", name="Read the journal").click()
    expect(page.get_by_role("row", name="Create instance web2.example")).to_be_visible()
    expect(entry).to_have_count(0)
    assert "object=web2.example" in page.url
    page.get_by_label("User").fill("nobody-else")
    page.get_by_label("User").press("Enter")
    expect(page.get_by_text("The journal has no such entry.")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    page = visitor.log_in("bob", "two", path="#/audit")
    expect(page.get_by_role("alert")).to_contain_text("user bob may not read the audit")
    expect(page.get_by_role("link", name="the audit")).to_have_count(0)


def test_an_address_of_a_pool_leads_to_its_owner(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/networks/net1?address=192.0.2.10")
    expect(page.get_by_role("link", name="web1.example").first).to_be_visible()


def test_claims_and_ports_have_a_page_that_stays_current(visitor: Visitor, console_server: ConsoleServer) -> None:
    claim = {
        "network": "net1", "fixed": [{"ip": "192.0.2.50"}], "name": "IPClaim edge/node-1", "description": "node-1",
        "device_owner": "kubernetes:IPClaim", "device_id": "site-a/edge/edge", "tags": ["pool-1"],
    }  # fmt: skip
    other = {"network": "net1", "fixed": [{"ip": "192.0.2.51"}], "name": "vip", "device_owner": "network:vip"}
    page = visitor.log_in(path="#/networks")
    page.get_by_role("link", name="Claims and ports").click()
    expect(page.get_by_text("Nothing but instances has addresses.")).to_be_visible()
    with console_server.cluster.luxi() as luxi:
        added = luxi.finished(luxi.value("SubmitJob", [{"OP_ID": "OP_PORT_ADD", "ports": [claim, other]}]))
        assert added[0] == "success", added
    table = page.get_by_role("table", name="Claims and ports")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table).to_contain_text("IPClaim edge/node-1")
    expect(table).to_contain_text("pool pool-1, API server site-a")
    page.get_by_role("button", name="Claims", exact=True).click()
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("status").filter(has_text="1 claim")).to_be_visible()
    page.get_by_role("button", name="Other ports").click()
    expect(table).to_contain_text("vip")
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_label("Filter claims and ports").fill("192.0.2.50")
    expect(table.get_by_role("row")).to_have_count(2)
    row(page, "192.0.2.50").get_by_role("link", name="192.0.2.50").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Addresses: 192.0.2.50")
    with console_server.cluster.luxi() as luxi:
        for name in ("IPClaim edge/node-1", "vip"):
            assert luxi.finished(luxi.value("SubmitJob", [{"OP_ID": "OP_PORT_REMOVE", "port": name}]))[0] == "success"


def test_search_finds_an_instance_by_its_address(visitor: Visitor) -> None:
    page = visitor.log_in()
    page.keyboard.press("/")
    page.keyboard.type("192.0.2.10")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("192.0.2.10|web1"))


def test_a_page_catches_up_after_its_daemon_was_away(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in(path="#/instances/web1.example")
    wait_for_badge(page, "running")
    console_server.stop()
    wait_for_connection(page, "not live")
    console_server.cluster.run("gnt-instance", "shutdown", "web1.example")
    console_server.start()
    # The sessions ended with the daemon: the page asks for the password, and continues where it was.
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Password").fill("one")
    dialog.get_by_role("button", name="Log in").click()
    wait_for_badge(page, "stopped")
    wait_for_connection(page, "live")
    console_server.cluster.run("gnt-instance", "startup", "web1.example")
    wait_for_badge(page, "running")


def test_what_the_server_refuses_is_shown_with_its_reason(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/instances/web1.example")

    def refuse(route: Route) -> None:
        failure = {"code": 409, "message": "Conflict", "explain": "<b>web1</b> is locked by job 7"}
        route.fulfill(status=409, content_type="application/json", body=json.dumps(failure))

    page.route("**/2/instances/web1.example/shutdown*", refuse)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("<b>web1</b> is locked by job 7")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_serious_fault_for_people_with_disabilities(
    visitor: Visitor, scheme: Literal["light", "dark"]
) -> None:
    visitor.context.add_init_script(path=AXE)
    page = visitor.log_in()
    page.emulate_media(color_scheme=scheme)
    for path in PAGES:
        page.goto(f"{visitor.console_server.address}/console/{path}")
        page.get_by_role("heading", level=1).wait_for()
        expect(page.locator("main .loading")).to_have_count(0)
        assert serious_faults(page) == [], path


def test_pages_fit_the_width_of_a_phone(visitor: Visitor) -> None:
    page = visitor.log_in()
    page.set_viewport_size({"width": 390, "height": 844})
    for path in PAGES:
        page.goto(f"{visitor.console_server.address}/console/{path}")
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
