"""What a person creates and changes in the console, in a real browser, on a cluster of daemons."""

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.cluster import lab
from tests.console.conftest import AXE, TIMEOUT, ConsoleServer, Visitor, serious_faults

pytestmark = pytest.mark.real

expect.set_options(timeout=TIMEOUT)


@pytest.fixture(scope="module", autouse=True)
def small_network(console_server: ConsoleServer) -> Iterator[None]:
    """A network of its own for these tests, with a pool of three addresses that one of them uses up."""
    run = console_server.cluster.run
    run(
        "gnt-network",
        "add",
        "--subnet",
        "cidr=198.51.100.0/24",
        "--pool",
        "198.51.100.10-198.51.100.12,name=few",
        "net2",
    )
    run("gnt-network", "connect", "-N", "mode=routed,link=main", "net2", "default")
    yield
    run("gnt-network", "disconnect", "net2", "default")
    run("gnt-network", "remove", "net2")


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def fill_in_instance(page: Page, name: str, network: str = "net2") -> None:
    """Fill in the form of an instance without disks, which every test cluster can create."""
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Disk template").select_option("diskless")
    page.get_by_label("Network", exact=True).select_option(network)
    page.get_by_label("Start it after it is created").uncheck()


def remove(console_server: ConsoleServer, *names: str) -> None:
    console_server.cluster.run("gnt-instance", "remove", "-f", *names)


def test_an_instance_is_planned_created_and_opened(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in(path="#/instances")
    page.get_by_role("link", name="New instance").click()
    fill_in_instance(page, "form1.example")
    page.get_by_label("Memory").fill("256M")
    page.get_by_label("Tags").fill("made-here")
    page.get_by_role("button", name="Show the plan").click()
    plan = page.locator(".plan")
    expect(plan).to_contain_text("create instance form1.example on node")
    expect(plan).to_contain_text("memory 256 MiB")
    expect(plan).to_contain_text("198.51.100.10 (pool few), network net2")
    expect(page.get_by_role("complementary", name="Jobs")).to_contain_text("Plan: Create instance form1.example")
    assert "form1.example" not in console_server.cluster.run("gnt-instance", "list").stdout
    page.get_by_role("button", name="Create form1.example").click()
    expect(page).to_have_url(re.compile("#/jobs/"))
    page.get_by_role("link", name="Open form1.example").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("form1.example")
    expect(page.locator("main")).to_contain_text("198.51.100.10")
    row = console_server.cluster.rows("gnt-instance", "name,be/memory,tags", "form1.example")
    assert row == [["form1.example", "256", "made-here"]]
    remove(console_server, "form1.example")


def test_an_instance_may_be_named_new(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in(path="#/new-instance")
    expect(page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")).to_have_text("Instances")
    fill_in_instance(page, "new")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Create new").click()
    page.get_by_role("link", name="Open new").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("new")
    expect(page.locator("main")).to_contain_text("198.51.100.10")
    remove(console_server, "new")


def test_a_job_that_fails_leads_back_to_the_form_as_it_was(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "form7.example")
    page.get_by_role("button", name="Show the plan").click()
    create = page.get_by_role("button", name="Create form7.example")
    expect(create).to_be_visible()
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "form7.example"
    )
    create.click()
    expect(page.locator("main")).to_contain_text("instance form7.example exists already")
    page.get_by_role("link", name="Back to the form").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("form7.example")
    remove(console_server, "form7.example")


def test_a_plan_of_another_form_is_not_displayed(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "form2.example")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("button", name="Create form2.example")).to_be_visible()
    page.get_by_label("Memory").fill("512M")
    expect(page.get_by_role("button", name="Create form2.example")).to_have_count(0)


def test_a_wrong_value_is_noted_beside_its_field_before_anything_is_sent(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "web1.example")
    page.get_by_label("Memory").fill("lots")
    expect(page.get_by_label("Memory")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Write a size such as 10G or 512M.")).to_be_visible()
    page.get_by_label("Memory").fill("")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".problem")).to_contain_text("web1.example exists already")
    expect(page.get_by_label("Name", exact=True)).to_have_value("web1.example")


def test_a_session_that_ends_in_the_middle_of_a_form_loses_nothing(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "form3.example")
    page.get_by_label("Memory").fill("192M")
    visitor.context.clear_cookies()
    page.get_by_role("button", name="Show the plan").click()
    expect(dialog(page)).to_contain_text("The session has ended")
    dialog(page).get_by_label("Password").fill("one")
    dialog(page).get_by_role("button", name="Log in").click()
    expect(page.locator(".plan")).to_contain_text("memory 192 MiB")
    expect(page.get_by_label("Name", exact=True)).to_have_value("form3.example")


def test_a_session_that_ends_in_the_middle_of_a_dialog_loses_nothing(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "edit0.example"
    )
    page = visitor.log_in(path="#/instances/edit0.example")
    page.get_by_role("button", name="Change memory").click()
    dialog(page).get_by_label("CPUs").fill("4")
    visitor.context.clear_cookies()
    dialog(page).get_by_role("button", name="Save").click()
    log_in = page.get_by_role("dialog", name="The session has ended")
    log_in.get_by_label("Password").fill("one")
    log_in.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert console_server.cluster.rows("gnt-instance", "be/vcpus", "edit0.example") == [["4"]]
    remove(console_server, "edit0.example")


def test_the_limits_of_the_policy_are_beside_the_field_and_checked_as_one_types(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    option = "--ipolicy-bounds-specs"
    console_server.cluster.run("gnt-group", "modify", option, "min:memory-size=64/max:memory-size=1024", "default")
    page = visitor.log_in(path="#/new-instance")
    expect(page.get_by_text("64 MiB to 1 GiB")).to_be_visible()
    page.get_by_label("Memory").fill("2G")
    expect(page.get_by_text("The instance policy allows 64 MiB to 1 GiB.")).to_be_visible()
    page.get_by_label("Memory").fill("1G")
    expect(page.locator(".problem")).to_have_count(0)
    console_server.cluster.run("gnt-group", "modify", option, "default", "default")


def test_the_form_is_as_it_was_after_a_look_at_another_page(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "form4.example")
    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")
    page.go_back()
    expect(page.get_by_label("Name", exact=True)).to_have_value("form4.example")


def test_an_address_is_taken_from_the_map_of_a_pool_and_released(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in(path="#/networks/net2")
    page.get_by_role("button", name="198.51.100.11, free").click()
    page.get_by_role("link", name="New instance with this address").click()
    expect(page.get_by_label("IP address")).to_have_value("198.51.100.11")
    fill_in_instance_without_network(page, "form5.example")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Create form5.example").click()
    page.get_by_role("link", name="Open form5.example").click()
    page.locator("main").get_by_role("link", name="198.51.100.11").click()
    page.get_by_role("button", name="Release it").click()
    expect(dialog(page)).to_contain_text("NIC 0 of form5.example")
    dialog(page).get_by_role("button", name="Release it").click()
    expect(dialog(page)).to_have_count(0)
    expect(
        page.get_by_role("button", name=re.compile("198.51.100.11, free|198.51.100.11, quarantined"))
    ).to_be_visible()
    assert console_server.cluster.rows("gnt-instance", "name,nic.ips", "form5.example") == [["form5.example", ""]]
    remove(console_server, "form5.example")


def fill_in_instance_without_network(page: Page, name: str) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Disk template").select_option("diskless")
    page.get_by_label("Start it after it is created").uncheck()


def test_an_address_is_reserved_and_released_with_its_owner_named(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in(path="#/networks/net2?address=198.51.100.12")
    page.get_by_role("button", name="Reserve").click()
    dialog(page).get_by_role("button", name="Reserve").click()
    cell = page.get_by_role("button", name="198.51.100.12, reserved externally")
    expect(cell).to_be_visible()
    assert "198.51.100.12" in console_server.cluster.run("gnt-network", "info", "net2").stdout
    page.get_by_role("button", name="Release the reservation").click()
    expect(dialog(page)).to_contain_text("198.51.100.12: reserved externally, by user alice")
    dialog(page).get_by_role("button", name="Release it").click()
    expect(page.get_by_role("button", name="198.51.100.12, free")).to_be_visible()


def test_a_pool_that_is_full_says_which_and_what_to_do(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run("gnt-network", "modify", "--add-reserved-ips", "198.51.100.10-198.51.100.12", "net2")
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "form6.example", network="net1")
    page.get_by_label("Network", exact=True).select_option("net2")
    page.get_by_role("button", name="Show the plan").click()
    problem = page.get_by_role("group", name="NIC 0").locator(".problem")
    expect(problem).to_contain_text("every pool of network net2 is full: 198.51.100.10-198.51.100.12 (few)")
    expect(problem).to_contain_text("add a pool, or release addresses")
    expect(page.get_by_label("Name", exact=True)).to_have_value("form6.example")
    console_server.cluster.run("gnt-network", "modify", "--remove-reserved-ips", "198.51.100.10-198.51.100.12", "net2")


def test_a_network_is_created_changed_and_removed(visitor: Visitor, console_server: ConsoleServer) -> None:
    page = visitor.log_in(path="#/networks")
    page.get_by_role("link", name="New network").click()
    page.get_by_label("Name", exact=True).fill("net3")
    page.get_by_label("CIDR").fill("203.0.113.0/25")
    page.get_by_label("Pool", exact=True).fill("203.0.113.10-203.0.113.19")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".plan")).to_contain_text("203.0.113.0/25")
    page.get_by_role("button", name="Create net3").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("net3")
    page.get_by_role("button", name="Add a subnet").click()
    dialog(page).get_by_label("CIDR").fill("203.0.113.0/24")
    dialog(page).get_by_role("button", name="Add the subnet").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("203.0.113.0/25")
    dialog(page).get_by_label("CIDR").fill("203.0.113.128/25")
    dialog(page).get_by_role("button", name="Add the subnet").click()
    expect(page.get_by_role("heading", name="203.0.113.128/25")).to_be_visible()
    page.get_by_role("group", name="Subnet 203.0.113.128/25").get_by_role("button", name="Add a pool").click()
    dialog(page).get_by_label("Addresses").fill("203.0.113.130-203.0.113.139")
    dialog(page).get_by_role("button", name="Add the pool").click()
    expect(page.get_by_role("button", name="203.0.113.130, free")).to_be_visible()
    page.get_by_role("button", name="Remove pool 203.0.113.10-203.0.113.19").click()
    dialog(page).get_by_role("button", name="Remove the pool").click()
    expect(page.get_by_role("button", name="203.0.113.10, free")).to_have_count(0)
    pools = console_server.cluster.rows("gnt-network", "name,pools", "net3")
    assert pools == [["net3", "203.0.113.130-203.0.113.139"]]
    page.get_by_role("group", name="Actions").get_by_role("button", name="Remove").click()
    dialog(page).get_by_role("textbox").fill("net3")
    dialog(page).get_by_role("button", name="Remove the network").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Networks")
    assert "net3" not in console_server.cluster.run("gnt-network", "list").stdout


def test_memory_processors_and_tags_are_changed(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "edit1.example"
    )
    page = visitor.log_in(path="#/instances/edit1.example")
    page.get_by_role("button", name="Change memory").click()
    dialog(page).get_by_label("Memory").fill("640M")
    dialog(page).get_by_label("CPUs").fill("3")
    dialog(page).get_by_label("Tags").fill("blue green")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    expect(page.locator("main")).to_contain_text("640 MiB")
    fields = "be/memory,be/vcpus,tags"
    assert console_server.cluster.rows("gnt-instance", fields, "edit1.example") == [["640", "3", "blue,green"]]
    console_server.cluster.run("gnt-instance", "modify", "-B", "memory=1300", "edit1.example")
    expect(page.locator("main")).to_contain_text("1.3 GiB")
    page.get_by_role("button", name="Change memory").click()
    dialog(page).get_by_label("CPUs").fill("4")
    dialog(page).get_by_label("Tags").fill("green")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    assert console_server.cluster.rows("gnt-instance", fields, "edit1.example") == [["1300", "4", "green"]]
    remove(console_server, "edit1.example")


def test_what_another_person_changed_is_displayed_before_saving(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "edit2.example"
    )
    page = visitor.log_in(path="#/instances/edit2.example")
    page.get_by_role("button", name="Change memory").click()
    dialog(page).get_by_label("CPUs").fill("2")
    console_server.cluster.run("gnt-instance", "modify", "-B", "memory=1001", "edit2.example")
    expect(dialog(page)).to_contain_text("has changed since you opened the form")
    expect(dialog(page)).to_contain_text("128 → 1001")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    # Only what this person changed is sent, so the other change stays.
    assert console_server.cluster.rows("gnt-instance", "be/memory,be/vcpus", "edit2.example") == [["1001", "2"]]
    remove(console_server, "edit2.example")


def test_a_change_that_the_page_has_not_seen_is_not_overwritten(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "edit3.example"
    )
    page = visitor.log_in(path="#/instances/edit3.example")
    page.get_by_role("button", name="Change memory").click()
    dialog(page).get_by_label("Memory").fill("300M")
    # The other person is faster by so little that no event has come when the form is sent.
    other_change = ["modify", "-B", "vcpus=2", "edit3.example"]

    def be_slower(route: Route) -> None:
        if other_change:
            console_server.cluster.run("gnt-instance", *other_change)
            other_change.clear()
        route.continue_()

    page.route("**/2/instances/edit3.example/modify", be_slower)
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("edit3.example has changed")
    assert console_server.cluster.rows("gnt-instance", "be/memory,be/vcpus", "edit3.example") == [["128", "2"]]
    expect(dialog(page)).to_contain_text("1 → 2")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)
    assert console_server.cluster.rows("gnt-instance", "be/memory,be/vcpus", "edit3.example") == [["300", "2"]]
    remove(console_server, "edit3.example")


def test_a_nic_is_added_changed_and_removed(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "edit4.example"
    )
    page = visitor.log_in(path="#/instances/edit4.example")
    page.get_by_role("button", name="Add a NIC").click()
    dialog(page).get_by_label("Network").select_option("net2")
    dialog(page).get_by_role("button", name="Add the NIC").click()
    expect(page.get_by_role("region", name="NICs")).to_contain_text("198.51.100.10")
    page.get_by_role("button", name="Change NIC 0").click()
    dialog(page).get_by_label("IP address").fill("198.51.100.12")
    dialog(page).get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="NICs")).to_contain_text("198.51.100.12")
    page.get_by_role("button", name="Remove NIC 0").click()
    expect(dialog(page)).to_contain_text("198.51.100.12")
    dialog(page).get_by_role("button", name="Remove the NIC").click()
    expect(page.get_by_text("No NICs.")).to_be_visible()
    remove(console_server, "edit4.example")


def test_an_instance_is_renamed(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run(
        "gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--no-nics", "old.example"
    )
    page = visitor.log_in(path="#/instances/old.example")
    page.get_by_role("button", name="Rename").click()
    dialog(page).get_by_label("New name").fill("new.example")
    dialog(page).get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("new.example")
    remove(console_server, "new.example")


def test_the_history_of_an_instance_is_read_on_demand(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/instances/web2.example")
    page.get_by_role("button", name="Read the history").click()
    expect(page.get_by_role("region", name="History")).to_contain_text("Create instance")


def test_a_segment_range_is_created_changed_and_removed(visitor: Visitor, console_server: ConsoleServer) -> None:
    console_server.cluster.run("gnt-cluster", "modify", "--segment-ranges", "yes")
    page = visitor.log_in(path="#/segments")
    page.get_by_role("button", name="New range").click()
    dialog(page).get_by_label("Name").fill("<i>lab</i>")
    dialog(page).get_by_label("Network type").select_option("vxlan")
    dialog(page).get_by_label("Lowest id").fill("7000")
    dialog(page).get_by_label("Highest id").fill("7009")
    dialog(page).get_by_role("button", name="Create the range").click()
    group = page.get_by_role("group", name="<i>lab</i>")
    expect(page.locator("main")).to_contain_text("0 of 10 in use")
    group.get_by_role("button", name="Change").click()
    dialog(page).get_by_label("Highest id").fill("7019")
    dialog(page).get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("0 of 20 in use")
    group.get_by_role("button", name="Remove").click()
    dialog(page).get_by_role("button", name="Remove the range").click()
    expect(page.locator("main")).not_to_contain_text("<i>lab</i>")


def test_an_export_is_made_listed_and_removed(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/instances/web3.example")
    page.get_by_role("button", name="Export").click()
    dialog(page).get_by_role("button", name="Export").click()
    expect(dialog(page)).to_have_count(0)
    page.get_by_role("link", name="Backups").click()
    exports = page.get_by_role("region", name="Exports")
    expect(exports).to_contain_text("web3.example")
    exports.get_by_role("button", name="Remove").click()
    dialog(page).get_by_role("button", name="Remove").click()
    expect(page.get_by_text("There are no exports.")).to_be_visible()


def test_the_settings_of_the_cluster_can_be_read(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/settings")
    main = page.locator("main")
    expect(main).to_contain_text("lab.example")
    expect(main).to_contain_text("Certificate ends")
    expect(main).to_contain_text("Instance policy")


def test_a_viewer_finds_no_form_and_nothing_to_change(visitor: Visitor) -> None:
    page = visitor.log_in("bob", "two", path="#/new-instance")
    expect(page.get_by_role("alert")).to_contain_text("not create instances")
    root = page.url.partition("#")[0]
    words = re.compile(r"^(New|Change|Add|Remove|Connect|Disconnect|Reserve|Release|Rename|Export|Fail|Grow)\b")
    for path in ("#/networks/net2?address=198.51.100.12", "#/instances/web1.example", "#/segments", "#/backups"):
        page.goto(root + path)
        page.get_by_role("heading", level=1).wait_for()
        expect(page.locator("main .loading")).to_have_count(0)
        expect(page.locator("main").get_by_role("button", name=words)).to_have_count(0)
        expect(page.locator("main").get_by_role("link", name=re.compile("^New"))).to_have_count(0)


@contextlib.contextmanager
def ruled(console_server: ConsoleServer, *rules: tuple[str, str]) -> Iterator[None]:
    """Give dora roles, each with its object, while the block runs."""
    for role, on in rules:
        console_server.cluster.run("gnt-cluster", "access", "add", "user:dora", role, on)
    yield
    console_server.cluster.run("gnt-cluster", "access", "remove", "user:dora")


def test_a_network_admin_changes_the_network_and_finds_nothing_of_the_cluster(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    with ruled(console_server, ("network-admin", "network:net2")):
        page = visitor.log_in("dora", "four", path="#/networks/net2?address=198.51.100.12")
        page.get_by_role("button", name="Reserve").click()
        dialog(page).get_by_role("button", name="Reserve").click()
        page.get_by_role("button", name="Release the reservation").click()
        dialog(page).get_by_role("button", name="Release it").click()
        expect(page.get_by_role("button", name="198.51.100.12, free")).to_be_visible()
        main = page.locator("main")
        expect(main.get_by_role("button", name="Add a subnet")).to_have_count(1)
        expect(main.get_by_role("button", name=re.compile("connect", re.IGNORECASE))).to_have_count(0)
        root = page.url.partition("#")[0]
        for path in ("#/networks", "#/networks/net1", "#/segments", "#/instances"):
            page.goto(root + path)
            page.get_by_role("heading", level=1).wait_for()
            expect(page.locator("main .loading")).to_have_count(0)
            expect(page.locator("main").get_by_role("button", name=re.compile(r"^(New|Add|Remove)\b"))).to_have_count(0)
            expect(page.locator("main").get_by_role("link", name=re.compile("^New"))).to_have_count(0)


def test_the_admin_of_a_node_group_creates_an_instance_in_a_network_of_a_project(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    run = console_server.cluster.run
    run("gnt-network", "add", "--network", "203.0.113.0/24", "--project", "shop", "shopnet")
    run("gnt-network", "connect", "-N", "mode=routed,link=main", "shopnet", "default")
    with ruled(console_server, ("admin", "group:default"), ("operator", "project:shop")):
        page = visitor.log_in("dora", "four", path="#/instances")
        page.get_by_role("link", name="New instance").click()
        fill_in_instance(page, "form8.example", network="shopnet")
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_role("button", name="Create form8.example").click()
        page.get_by_role("link", name="Open form8.example").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("form8.example")
        expect(page.get_by_role("button", name="Start")).to_have_count(1)
    remove(console_server, "form8.example")
    run("gnt-network", "disconnect", "shopnet", "default")
    run("gnt-network", "remove", "shopnet")


def test_names_with_markup_are_text_in_the_form_and_in_its_refusal(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    fill_in_instance(page, "<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".problem, .failure").filter(has_text=re.compile("name|img"))).not_to_have_count(0)
    expect(page.locator("main img")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_and_plans_have_no_serious_fault_for_people_with_disabilities(
    visitor: Visitor, scheme: Literal["light", "dark"]
) -> None:
    visitor.context.add_init_script(path=AXE)
    page = visitor.log_in(path="#/new-instance")
    page.emulate_media(color_scheme=scheme)
    fill_in_instance(page, "axe.example")
    page.get_by_label("CPUs").fill("none")
    expect(page.locator(".problem")).to_be_visible()
    assert serious_faults(page) == []
    page.get_by_label("CPUs").fill("")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("button", name="Create axe.example")).to_be_visible()
    assert serious_faults(page) == []
    root = page.url.partition("#")[0]
    for path, button in (
        ("#/instances/web1.example", "Change memory"),
        ("#/instances/web1.example", "Change NIC 0"),
        ("#/instances/web1.example", "Fail over"),
        ("#/networks/net2", "Add a subnet"),
        ("#/segments", "New range"),
    ):
        page.goto(root + path)
        page.get_by_role("button", name=button).click()
        expect(dialog(page).get_by_role("button", name="Working")).to_have_count(0)
        dialog(page).locator("form").wait_for()
        assert serious_faults(page) == [], button
        page.keyboard.press("Escape")
        expect(dialog(page)).to_have_count(0)


def test_forms_and_plans_fit_the_width_of_a_phone(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/new-instance")
    page.set_viewport_size({"width": 390, "height": 844})
    fill_in_instance(page, f"{'long-' * 12}name.example")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".plan li").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_node_is_drained_emptied_and_used_again(visitor: Visitor, console_server: ConsoleServer) -> None:
    run = console_server.cluster.run
    run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-install", "-n", "node2", "moving.example")
    run("gnt-instance", "start", "moving.example")
    page = visitor.log_in(path="#/nodes/node2")
    actions = page.get_by_role("group", name="Actions")
    actions.get_by_role("button", name="Empty…").click()
    dialog(page).get_by_label("What moves").select_option("primary-only")
    dialog(page).get_by_role("button", name="Show the plan").click()
    expect(dialog(page).get_by_label("The plan")).to_contain_text("job: INSTANCE_MIGRATE(moving.example) to node1")
    page.evaluate(AXE.read_text())
    assert serious_faults(page) == []
    dialog(page).get_by_role("button", name="Move them").click()
    expect(page.get_by_role("status").filter(has_text="1 job submitted")).to_be_visible()
    expect(page.locator("header.head")).to_contain_text("drained")
    here = page.get_by_role("table", name="Instances on node2")
    expect(here.get_by_role("link", name="moving.example")).to_have_count(0)
    moved = [["node1", "running"]]
    rows = functools.partial(console_server.cluster.rows, "gnt-instance", "pnode,status", "moving.example")
    lab.wait_until(lambda: rows() == moved, "the guest on node1")
    actions.get_by_role("button", name="End the drain").click()
    expect(actions.get_by_role("button", name="Drain")).to_be_visible()
    assert console_server.cluster.rows("gnt-node", "drained", "node2") == [["N"]]
    remove(console_server, "moving.example")


def test_an_instance_that_cannot_leave_its_node_is_named_with_the_reason(visitor: Visitor) -> None:
    page = visitor.log_in(path="#/nodes/node1")
    page.get_by_role("button", name="Empty…").click()
    dialog(page).get_by_label("Drain it first").uncheck()
    dialog(page).get_by_role("button", name="Move them").click()
    expect(page.get_by_role("status").filter(has_text="cannot move")).to_contain_text("web1.example: ")
    assert page.get_by_role("button", name="Drain", exact=True).count() == 0  # it is the master


def test_a_node_is_marked_offline_after_a_question_and_online_again(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    page = visitor.log_in(path="#/nodes/node2")
    page.get_by_role("button", name="Mark offline…").click()
    dialog(page).get_by_role("button", name="Keep it online").click()
    assert console_server.cluster.rows("gnt-node", "offline", "node2") == [["N"]]
    page.get_by_role("button", name="Mark offline…").click()
    dialog(page).get_by_role("button", name="Mark it offline").click()
    expect(page.locator("header.head")).to_contain_text("offline")
    page.get_by_role("button", name="Mark online").click()
    expect(page.get_by_role("button", name="Mark offline…")).to_be_visible()
    assert console_server.cluster.rows("gnt-node", "offline", "node2") == [["N"]]


def test_who_may_not_change_a_node_has_no_actions_there(visitor: Visitor) -> None:
    page = visitor.log_in("bob", "two", path="#/nodes/node2")
    expect(page.get_by_role("heading", name="Capacity")).to_be_visible()
    expect(page.get_by_role("group", name="Actions")).to_have_count(0)
