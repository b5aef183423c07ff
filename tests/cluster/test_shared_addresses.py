"""Addresses in a database that others use too, with real daemons: there, over a new master, and back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres
from tests.cluster import lab

from gantry.ipam.sql import driver, engines, requests

SECRET = "lion-in-winter"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=postgres.NEEDS)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/ipam.db"
        return
    with postgres.running() as server:
        yield server.create("ipam").replace("postgres@", f"postgres:{SECRET}@")


class OtherServer:
    """Another server on the database."""

    def __init__(self, url: str) -> None:
        self.driver = driver.Driver(engines.open_database(url), below=lambda _: 0)
        (self.subnet,) = [subnet.id for subnet in self.driver.subnets() if subnet.cidr == "192.0.2.0/24"]

    def allocated(self) -> list[str]:
        return [allocation.address for allocation in self.driver.allocations(self.subnet)]

    def take(self, ip: str) -> None:
        self.driver.allocate(self.subnet, requests.SpecificAddress(ip), owner="port-7", key=ip)


def add(own: lab.Lab, name: str, nic: str = "ip=lan4") -> str:
    own.run(
        "gnt-instance", "add", "-t", "diskless", "-n", "node1", "--no-start", "--net", f"0:{nic},network=net1", name
    )
    return own.rows("gnt-instance", "nic.ips", name)[0][0]


@pytest.mark.slow
def test_a_database_has_the_last_word_over_a_new_master_until_it_is_left(own: lab.Lab, url: str) -> None:
    assert add(own, "a.example") == "192.0.2.10"
    own.run("gnt-cluster", "modify", "--ipam-driver", "sql", "--ipam-database", url)
    server = OtherServer(url)
    assert server.allocated() == ["192.0.2.10"]
    server.take("192.0.2.11")
    assert add(own, "b.example") == "192.0.2.12"
    output = own.refused("gnt-cluster", "modify", "--ipam-driver", "embedded")
    assert "192.0.2.11 to port-7" in output
    own.kill_master()
    server.take("192.0.2.13")
    own.start_master()
    output = own.refused("gnt-instance", "add", *lab.instance_arguments(nics="ip=lan4,network=net1"), "c.example")
    assert "pool lan4 of network net1 is full" in output
    output = own.refused("gnt-instance", "add", *lab.instance_arguments(nics="ip=192.0.2.13,network=net1"), "c.example")
    assert "address 192.0.2.13 of network net1 is allocated to port-7 in the database" in output
    own.run("gnt-instance", "remove", "-f", "a.example")
    lab.wait_until(lambda: "192.0.2.10" not in server.allocated(), "the address in the database")
    server.take("192.0.2.10")
    for ip in ("192.0.2.10", "192.0.2.11", "192.0.2.13"):
        server.driver.deallocate(server.subnet, ip)
    own.run("gnt-cluster", "modify", "--ipam-driver", "embedded")
    assert server.driver.subnets() == []
    assert add(own, "d.example") == "192.0.2.10"


def test_the_password_of_a_database_is_shown_nowhere(own: lab.Lab, url: str) -> None:
    own.run("gnt-cluster", "modify", "--ipam-driver", "sql", "--ipam-database", url)
    info = own.run("gnt-cluster", "info").stdout
    assert f"database of addresses: {url.replace(f':{SECRET}', '')}" in info
    texts = [info, own.run("gnt-job", "info", "1", "2", "3", "4").stdout, own.run("gantry", "export-config").stdout]
    texts += [path.read_text() for path in lab.files(own.master / "log")]
    assert all(SECRET not in text for text in texts)
    assert "ipam_database" in texts[1]
