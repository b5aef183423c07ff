"""The driver through Neutron's interface alone: no core plugin is loaded. pytest runs it in Neutron's environment."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import netaddr
import pytest
from neutron.common import config
from neutron.db.migration.models import head
from neutron.ipam import driver as interface
from neutron.ipam import exceptions, requests
from neutron_lib import constants, context
from neutron_lib import exceptions as general
from neutron_lib.db import api
from neutron_lib.plugins import directory
from oslo_config import cfg

from gantry.ipam.neutron import driver, settings

CONFIGURATION = """\
[DEFAULT]
core_plugin = ml2
transport_url = fake://
ipam_driver = gantry
[database]
connection = sqlite:///{folder}/neutron.db
"""
PASSWORD = "hidden-from-logs"
MAC = "fa:16:3e:00:00:05"


@pytest.fixture(scope="module", autouse=True)
def neutron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make Neutron's database."""
    folder = tmp_path_factory.mktemp("neutron")
    (folder / "neutron.conf").write_text(CONFIGURATION.format(folder=folder))
    config.register_common_config_options()
    config.init(["--config-file", str(folder / "neutron.conf")])
    head.get_metadata().create_all(api.CONTEXT_WRITER.get_engine())
    return folder / "neutron.db"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Path]:
    cfg.CONF.set_override("connection", f"sqlite://{tmp_path}/ipam.db", group=settings.GROUP)
    yield tmp_path / "ipam.db"
    cfg.CONF.clear_override("connection", group=settings.GROUP)


@pytest.fixture
def pool(tables: Path) -> driver.Pool:
    pool: driver.Pool = interface.Pool.get_instance(None, context.get_admin_context())
    return pool


def _subnet(pool: driver.Pool, cidr: str, *pools: str) -> driver.Subnet:
    ranges = [netaddr.IPRange(*text.split("-")) for text in pools] or None
    return pool.allocate_subnet(requests.SpecificSubnetRequest("p", "s", cidr, allocation_pools=ranges))


def test_the_driver_is_found_by_its_name_and_works_without_a_core_plugin(pool: driver.Pool) -> None:
    assert type(pool) is driver.Pool
    assert directory.get_plugin() is None
    subnet = _subnet(pool, "192.0.2.0/24")
    assert subnet.allocate(requests.PreferNextAddressRequest()) == "192.0.2.1"
    assert netaddr.IPAddress(subnet.allocate(requests.AnyAddressRequest())) in netaddr.IPNetwork("192.0.2.0/24")


def test_getting_a_subnet_does_no_work(tables: Path) -> None:
    driver.Pool(None, None).get_subnet("s")
    assert not tables.exists()


def test_details_are_those_of_the_request_or_of_the_stored_subnet(pool: driver.Pool) -> None:
    details = _subnet(pool, "192.0.2.0/29").get_details()
    assert str(details.subnet_cidr) == "192.0.2.0/29"
    assert details.allocation_pools == [netaddr.IPRange("192.0.2.1", "192.0.2.6")]
    later = pool.get_subnet("s").get_details()
    assert (later.subnet_cidr, later.allocation_pools) == (details.subnet_cidr, details.allocation_pools)


def test_specific_and_automatic_addresses_are_had_once(pool: driver.Pool) -> None:
    subnet = _subnet(pool, "2001:db8::/64")
    automatic = requests.AutomaticAddressRequest(prefix="2001:db8::/64", mac=MAC)
    assert subnet.allocate(automatic) == "2001:db8::f816:3eff:fe00:5"
    with pytest.raises(exceptions.IpAddressAlreadyAllocated):
        subnet.allocate(automatic)
    with pytest.raises(exceptions.InvalidIpForSubnet):
        subnet.allocate(requests.SpecificAddressRequest("2001:db8:1::1"))


def test_several_addresses_at_once_are_all_or_none(pool: driver.Pool) -> None:
    subnet = _subnet(pool, "192.0.2.0/28")
    assert len(set(subnet.bulk_allocate(requests.BulkAddressRequest(10)))) == 10
    with pytest.raises(exceptions.IpAddressGenerationFailure):
        subnet.bulk_allocate(requests.BulkAddressRequest(5))
    assert len(subnet.bulk_allocate(requests.BulkAddressRequest(4))) == 4


def test_an_address_that_is_freed_twice_is_free_once(pool: driver.Pool) -> None:
    subnet = _subnet(pool, "192.0.2.0/24", "192.0.2.5-192.0.2.5")
    for _ in range(2):
        assert subnet.allocate(requests.AnyAddressRequest()) == "192.0.2.5"
        with pytest.raises(exceptions.IpAddressGenerationFailure):
            subnet.allocate(requests.AnyAddressRequest())
        subnet.deallocate("192.0.2.5")
        subnet.deallocate("192.0.2.5")


def test_a_request_recalculates_the_ranges_of_a_stale_subnet(pool: driver.Pool, tables: Path) -> None:
    subnet = _subnet(pool, "192.0.2.0/24")
    request = requests.SpecificSubnetRequest(
        "p", "s", "192.0.2.0/24", allocation_pools=[netaddr.IPRange("192.0.2.9", "192.0.2.10")]
    )
    pool.update_subnet(request)
    count = "SELECT count(*) FROM gantry_ranges"
    with sqlite3.connect(tables) as database:
        assert database.execute(count).fetchone() == (0,)
        assert subnet.allocate(requests.PreferNextAddressRequest()) == "192.0.2.9"
        assert database.execute(count).fetchone() == (1,)


def test_an_unknown_subnet_raises_neutrons_exception(pool: driver.Pool) -> None:
    for call in (
        lambda: pool.get_subnet("x").allocate(requests.AnyAddressRequest()),
        lambda: pool.get_subnet("x").get_details(),
        lambda: pool.remove_subnet("x"),
        lambda: pool.update_subnet(requests.SpecificSubnetRequest("p", "x", "192.0.2.0/24", allocation_pools=[])),
    ):
        with pytest.raises(general.SubnetNotFound):
            call()
    pool.get_subnet("x").deallocate("192.0.2.1")


def test_requests_for_what_is_not_a_subnet_are_refused(pool: driver.Pool) -> None:
    with pytest.raises(exceptions.InvalidSubnetRequestType):
        pool.allocate_subnet(requests.AnySubnetRequest("p", "s", constants.IPv4, 24))
    with pytest.raises(exceptions.InvalidSubnetRequest):
        pool.update_subnet(requests.SpecificSubnetRequest("p", None, "192.0.2.0/24"))


def test_a_subnet_that_a_port_has_an_address_of_stays(pool: driver.Pool, neutron: Path) -> None:
    _subnet(pool, "192.0.2.0/24")
    row = "INSERT INTO ipallocations (port_id, ip_address, subnet_id, network_id) VALUES ('p', '192.0.2.5', 's', 'n')"
    with sqlite3.connect(neutron) as database:
        database.execute(row)
    with pytest.raises(general.SubnetInUse):
        pool.remove_subnet("s")
    with sqlite3.connect(neutron) as database:
        database.execute("DELETE FROM ipallocations")
    pool.remove_subnet("s")


def test_the_password_of_the_database_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    url = f"postgresql://gantry:{PASSWORD}@127.0.0.1:1/ipam"
    cfg.CONF.set_override("connection", url, group=settings.GROUP)
    caplog.set_level(logging.DEBUG)
    cfg.CONF.log_opt_values(logging.getLogger("options"), logging.DEBUG)
    with pytest.raises(general.ServiceUnavailable):
        driver.Pool(None, context.get_admin_context()).get_subnet("s").allocate(requests.AnyAddressRequest())
    cfg.CONF.clear_override("connection", group=settings.GROUP)
    assert "gantry.connection" in caplog.text
    assert "cannot be reached" in caplog.text
    assert PASSWORD not in caplog.text
