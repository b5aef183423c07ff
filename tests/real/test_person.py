"""What a person does with the console and has read no page: on the demonstration, with a real guest."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.cluster import lab
from tests.console.conftest import TIMEOUT, chromium, fill_in
from tests.real import demonstration

from gantry.doors import console

pytestmark = [*demonstration.NEEDS, demonstration.MINUTES]

NAME = "mine.example"
ADDRESS = "198.51.100.50"
COLOURS = """() => {
    const screen = document.querySelector(".screen canvas");
    if (!screen?.width) return false;
    const copy = new OffscreenCanvas(screen.width, screen.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(screen, 0, 0);
    const pixels = new Uint32Array(copy.getImageData(0, 0, screen.width, screen.height).data.buffer);
    return new Set(pixels).size > 1;
}"""
"""Whether the screen of a guest has more than one colour: something is written on it."""

expect.set_options(timeout=TIMEOUT)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[demonstration.Demo]:
    """A demonstration whose nodes share a folder, so that a guest with a disk can migrate."""
    if not console.built_files():
        pytest.skip("the console is not built: make console, which make test-real requires")
    shared = tmp_path / "shared"
    shared.mkdir()
    with demonstration.up("gper") as demo:
        for node in (1, 2, 3):
            (Path(demo.folder) / f"node{node}/srv/shared-file-storage").symlink_to(shared)
        demo.gnt("gnt-cluster", "modify", "--enabled-disk-templates", "sharedfile,file,diskless")
        demo.gnt("gnt-cluster", "modify", "-H", "kvm:vnc_bind_address=127.0.0.1")
        yield demo


@pytest.fixture
def page(demo: demonstration.Demo) -> Iterator[Page]:
    """The console after a log-in with what the demonstration has printed."""
    address = re.search(r"https://localhost:\d+/", demo.said)
    login = re.search(r"user (\S+), password (\S+)", demo.said)
    assert address
    assert login
    with chromium() as browser:
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(TIMEOUT)
        page.goto(address[0])
        fill_in(page, login[1], login[2])
        page.get_by_role("search").wait_for()
        yield page


def create(page: Page) -> None:
    """Create the instance with an address from the map of a pool, and watch its job to the end."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Networks").click()
    page.locator("main").get_by_role("link", name="demo", exact=True).click()
    page.get_by_role("button", name=f"{ADDRESS}, free").click()
    page.get_by_role("link", name="New instance with this address").click()
    expect(page.get_by_label("IP address")).to_have_value(ADDRESS)
    page.get_by_label("Name", exact=True).fill(NAME)
    page.get_by_label("Disk template").select_option("sharedfile")
    page.get_by_label("Size").fill("64M")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".plan")).to_contain_text(f"create instance {NAME} on node")
    page.get_by_role("button", name=f"Create {NAME}").click()
    expect(page.locator("main")).to_contain_text(f"install busybox on {NAME}")
    page.get_by_role("link", name=f"Open {NAME}").click()


def test_an_instance_is_made_watched_migrated_and_removed_and_its_address_given_back(
    page: Page, demo: demonstration.Demo
) -> None:
    create(page)
    head = page.locator("header.head")
    expect(head).to_contain_text("running")
    home = page.locator("main").get_by_role("link", name=re.compile("^node[123]$")).first
    node = home.inner_text()

    page.get_by_role("link", name="Console").click()
    expect(page.get_by_text(f"to {NAME} on {node}")).to_be_visible()
    page.get_by_label("Read aloud").check()
    page.locator(".screen").click()
    lab.wait_until(lambda: says(page, "echo $((40 + 2))", "42"), "the guest's answer")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("link", name="Screen").click()
    page.wait_for_function(COLOURS)
    page.get_by_role("button", name="Close", exact=True).click()

    page.locator("main").get_by_role("link", name=NAME, exact=True).click()
    page.get_by_role("button", name="Migrate…").click()
    page.get_by_role("dialog").get_by_role("button", name="Migrate", exact=True).click()
    expect(home).not_to_have_text(node)
    expect(head).to_contain_text("running")

    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(NAME)
    page.get_by_role("dialog").get_by_role("button", name="Remove the instance").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Networks").click()
    page.locator("main").get_by_role("link", name="demo", exact=True).click()
    expect(page.get_by_role("button", name=f"{ADDRESS}, free")).to_be_visible()
    assert NAME not in demo.gnt("gnt-instance", "list")


def says(page: Page, command: str, answer: str) -> bool:
    """Type a command into the serial line; return whether the guest has answered so."""
    page.keyboard.type(f"{command}\n")
    page.wait_for_timeout(1000)
    return answer in page.locator(".xterm-accessibility").inner_text()
