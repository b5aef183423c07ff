"""Which driver a Neutron uses, what that driver stores and what Neutron stores, and what stays secret."""

import pytest
from tests import postgres
from tests.neutron import server

pytestmark = server.NEEDS
PASSWORD = "hidden-from-clients"


def _counts(database: postgres.Server, name: str) -> dict[str, int]:
    """Return the number of rows of each driver's table of allocations; 0 without the table."""
    tables = {"internal": "ipamallocations", "gantry": "gantry_allocations"}
    known = {name for (name,) in database.run(name, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    return {
        driver: int(database.run(name, f"SELECT count(*) FROM {table}")[0][0]) if table in known else 0
        for driver, table in tables.items()
    }


@pytest.mark.promise("ipam-3", "ipam-33")
@pytest.mark.parametrize(("driver", "user"), [("", "internal"), ("internal", "internal"), ("gantry", "gantry")])
def test_all_servers_use_the_driver_that_neutron_conf_names_or_else_neutrons_own(driver: str, user: str) -> None:
    with postgres.running() as database, server.running(database.create("neutron"), driver=driver) as (neutron, first):
        second = neutron.start(workers=1)
        network, _ = first.network("192.0.2.0/24")
        ports = [client.create("port", network_id=network) for client in (first, second, first, second)]
        assert len(set(server.addresses(ports))) == 4
        assert _counts(database, "neutron") == {"internal": 0, "gantry": 0} | {user: 4}


@pytest.mark.promise("ipam-16")
def test_the_driver_stores_the_allocation_and_neutron_what_its_api_shows() -> None:
    with (
        postgres.running() as database,
        server.running(database.create("neutron"), database.create("gantry")) as (_, client),
    ):
        network, subnet = client.network("192.0.2.0/24")
        port = client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.7"}])
        assert database.run("gantry", "SELECT subnet, address, owner FROM gantry_allocations") == [
            [subnet, "c0000207", port["id"]]
        ]
        assert database.run("neutron", "SELECT subnet_id, ip_address, port_id FROM ipallocations") == [
            [subnet, "192.0.2.7", port["id"]]
        ]
        database.run("gantry", "DELETE FROM gantry_allocations")
        assert server.addresses(client.list("port", id=port["id"])) == ["192.0.2.7"]
        again = client.create("port", network_id=network)
        database.run("neutron", f"DELETE FROM ipallocations WHERE port_id = '{again['id']}'")
        assert server.addresses(client.list("port", id=again["id"])) == []
        assert database.run("gantry", "SELECT owner FROM gantry_allocations") == [[again["id"]]]


@pytest.mark.promise("ipam-30")
def test_the_password_of_the_driver_stays_secret_and_what_users_write_is_data() -> None:
    with postgres.running() as own, postgres.running() as database:
        url = own.create("gantry").replace("@", f":{PASSWORD}@")
        with server.running(database.create("neutron"), url) as (neutron, client):
            network, subnet = client.network("192.0.2.0/24")
            for wrong in ("192.0.2.7'; DROP TABLE gantry_allocations; --", "192.0.2.7%s", "192.0.2.7:owner"):
                fixed = [{"subnet_id": subnet, "ip_address": wrong}]
                status, _ = client.call("POST", "/v2.0/ports", {"port": {"network_id": network, "fixed_ips": fixed}})
                assert status == 400
            port = client.create("port", network_id=network, device_id="'; DROP TABLE gantry_subnets; --")
            assert own.run("gantry", "SELECT owner FROM gantry_allocations") == [[port["id"]]]
            own.stop()
            status, answer = client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})
            assert status == 503
            assert PASSWORD not in str(answer)
            assert "gantry" not in str(answer)
            assert "cannot be reached" in neutron.logs()
            assert PASSWORD not in neutron.logs()
            own.start()
