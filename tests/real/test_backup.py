"""A virtual machine that is exported, lost, and comes back on another node with what it had written."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import demonstration
from tests.real.demonstration import FIXED, IPV4, IPV6, NAME, Demo

pytestmark = [*demonstration.NEEDS, demonstration.MINUTES]


class Moved(Demo):
    """The demonstration when its virtual machine is on the third node."""

    @property
    def node(self) -> Path:
        return Path(self.folder) / "node3"


@pytest.fixture
def demo() -> Iterator[Demo]:
    with demonstration.up("gb") as demo:
        yield demo


@pytest.mark.promise("cluster-113", "cluster-120")
def test_a_guest_comes_back_on_another_node_with_its_files_and_addresses(demo: Demo) -> None:
    demo.console("echo kept-$((6 * 7)) > /root/mark; sync; cat /root/mark", until="kept-42")
    demo.gnt("gnt-backup", "export", "-n", "node1", "--compress", "gzip", "--shutdown-timeout", "60", NAME)
    demo.wait(IPV4)  # it was stopped for the copy, and runs again
    assert NAME in demo.gnt("gnt-backup", "list", "--no-headers", "-o", "export", "-n", "node1")
    demo.gnt("gnt-instance", "remove", "-f", "--shutdown-timeout", "0", NAME)
    demo.wait(IPV4, answer=False)
    demo.gnt("gnt-backup", "import", "-n", "node3", NAME)
    for address in (IPV4, IPV6, FIXED):
        demo.wait(address)
    moved = Moved(demo.folder, demo.prefix)
    moved.console("cat /root/mark", until="kept-42")
    assert "running" in demo.gnt("gnt-instance", "list", "--no-headers", "-o", "status,pnode", NAME)
    demo.gnt("gnt-backup", "remove", NAME)
    assert not list((Path(demo.folder) / "node1/lib/export").glob(f"{NAME}*"))
