"""What a node used in the last day, as pictures in a browser."""

import array
import time

import msgspec
import pytest
from playwright.sync_api import expect
from tests.console.conftest import AXE, ConsoleServer, Visitor, serious_faults

from gantry.rpc import calls

pytestmark = pytest.mark.real

MINUTES = 30
BUSY = 1.5
"""Processors in use all the time."""


BEFORE = 1e12
"""What the counters had already: the machine's own are smaller, so that they begin again with the daemon."""


def _past() -> bytes:
    """Return the file of a node daemon that has measured for half an hour."""
    values = array.array("d")
    now = time.time()
    for minute in range(MINUTES):
        elapsed = 60.0 * minute
        values.extend([now - 60.0 * (MINUTES - minute), BEFORE + BUSY * elapsed, 1 << 30])
        values.extend([BEFORE + 1024 * elapsed, BEFORE, BEFORE, BEFORE + 2048 * elapsed])
    return msgspec.msgpack.encode({calls.OF_NODE: values.tobytes()})


def test_a_node_shows_what_it_used_in_the_last_day(visitor: Visitor, console_server: ConsoleServer) -> None:
    node = console_server.cluster.nodes[1]
    node.stop()
    (node.root / "lib/usage").write_bytes(_past())
    node.start()
    visitor.context.add_init_script(path=AXE)
    page = visitor.log_in(path=f"#/nodes/{node.name}")
    for name, text in {
        "Processors": f"{BUSY} in use",
        "Disks": "1 KiB/s read, 0 B/s written",
        "Network": "0 B/s received, 2 KiB/s sent",
    }.items():
        expect(page.get_by_role("img", name=f"{name}: {text}")).to_be_visible()
    expect(page.locator(".pictures canvas")).to_have_count(4)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious_faults(page) == []


def test_an_instance_that_has_not_run_says_that_nothing_is_measured_yet(
    visitor: Visitor, console_server: ConsoleServer
) -> None:
    console_server.cluster.add_instance("unused.example", "--no-start")
    page = visitor.log_in(path="#/instances/unused.example")
    expect(page.get_by_text("Nothing has been measured yet")).to_be_visible()
    console_server.cluster.run("gnt-instance", "remove", "-f", "unused.example")
