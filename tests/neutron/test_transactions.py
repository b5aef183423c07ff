"""The driver and Neutron's transactions: an allocation is kept only if Neutron's transaction is committed."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import leftovers, postgres
from tests.neutron import server
from tests.real.nodes import lab

pytestmark = server.NEEDS
UNKNOWN = "00000000-0000-4000-8000-000000000000"

# PostgreSQL runs this trigger in COMMIT, at the end of a transaction. The name of a port decides: its first commit
# fails like after a deadlock, every commit fails, or its commit takes long enough to kill the server.
TRAP = """
CREATE SEQUENCE commits;
CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name = 'fails once' AND nextval('commits') = 1 THEN
        RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
    ELSIF NEW.name = 'fails' THEN
        RAISE EXCEPTION 'no';
    ELSIF NEW.name = 'waits' THEN
        PERFORM pg_sleep(60);
    END IF;
    RETURN NEW;
END $$;
CREATE CONSTRAINT TRIGGER trap AFTER INSERT OR UPDATE ON ports DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION trap();
"""


class Deployment:
    """A Neutron with its database and the driver's database."""

    def __init__(self, database: postgres.Server, neutron: server.Neutron, client: server.Client) -> None:
        self.database = database
        self.neutron = neutron
        self.client = client
        self.where = "gantry" if neutron.own else "neutron"

    def allocated(self, subnet: str) -> int:
        count = f"SELECT count(*) FROM gantry_allocations WHERE subnet = '{subnet}'"
        return int(self.database.run(self.where, count)[0][0])

    def fill(self, network: str, *, free: int) -> None:
        """Allocate ``free`` addresses, and assert that none is left."""
        for _ in range(free):
            self.client.create("port", network_id=network)
        assert self.client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 409


@pytest.fixture(scope="module", params=["in a separate database", "in Neutron's database"])
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    with postgres.running() as database:
        url = database.create("gantry") if request.param.startswith("in a separate") else ""
        with server.running(database.create("neutron"), url) as (neutron, client):
            database.run("neutron", TRAP)
            yield Deployment(database, neutron, client)


def test_posts_with_an_unknown_security_group_leave_no_address_behind(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/29")
    for _ in range(6):
        port = {"network_id": network, "security_groups": [UNKNOWN]}
        assert deployment.client.call("POST", "/v2.0/ports", {"port": port})[0] == 404
    assert deployment.allocated(subnet) == 0
    deployment.fill(network, free=5)


def test_a_commit_that_fails_is_repeated_and_succeeds_with_one_address(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/29")
    named = {"ip_address": "192.0.2.3", "subnet_id": subnet}
    assert deployment.client.create("port", network_id=network, name="fails once", fixed_ips=[named])["fixed_ips"] == [
        named
    ]
    assert deployment.allocated(subnet) == 1


def test_an_update_that_fails_at_its_commit_changes_no_address(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/29")
    port = deployment.client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.3"}])
    change = {"name": "fails", "fixed_ips": [{"ip_address": "192.0.2.4"}]}
    assert deployment.client.call("PUT", f"/v2.0/ports/{port['id']}", {"port": change})[0] == 500
    assert server.addresses(deployment.client.list("port", id=port["id"])) == ["192.0.2.3"]
    assert deployment.allocated(subnet) == 1
    deployment.fill(network, free=4)


def test_a_bulk_that_fails_at_its_commit_leaves_no_address_behind(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/28")
    ports = [{"network_id": network, "name": name} for name in ("a", "b", "fails")]
    assert deployment.client.call("POST", "/v2.0/ports", {"ports": ports})[0] == 500
    assert deployment.allocated(subnet) == 0


@pytest.mark.promise("ipam-22")
def test_a_deleted_subnet_leaves_nothing_in_the_tables(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/28")
    port = deployment.client.create("port", network_id=network)
    deployment.client.delete("port", port["id"])
    deployment.client.delete("subnet", subnet)
    for table, column in (("subnets", "id"), ("pools", "subnet"), ("ranges", "subnet"), ("allocations", "subnet")):
        assert (
            deployment.database.run(deployment.where, f"SELECT * FROM gantry_{table} WHERE {column} = '{subnet}'") == []
        )


@pytest.mark.promise("ipam-37")
def test_a_repair_releases_the_addresses_of_a_server_killed_before_neutrons_commit(deployment: Deployment) -> None:
    network, subnet = deployment.client.network("192.0.2.0/29")
    kept = deployment.client.create("port", network_id=network)
    doomed = deployment.neutron.start(workers=1)
    body = {"port": {"network_id": network, "name": "waits"}}
    asking = threading.Thread(target=_ask, args=(doomed, body))
    asking.start()
    sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    backend = lab.until(lambda: deployment.database.run("neutron", sleeping), "no commit waits")[0][0]
    deployment.neutron.kill(doomed.port, signal.SIGKILL)
    asking.join()
    deployment.database.run("neutron", f"SELECT pg_terminate_backend({backend})")
    lab.until(lambda: not deployment.database.run("neutron", sleeping), "the commit still waits")
    leftovers_count = deployment.allocated(subnet) - 1
    assert leftovers_count == (1 if deployment.neutron.own else 0)
    if leftovers_count:
        output = deployment.neutron.python(PROGRAM, "check", "--pause", "1", *deployment.neutron.arguments, code=1)
        assert f"of subnet {subnet}: allocated, but no port has it" in output
        deployment.neutron.python(PROGRAM, "repair", "--pause", "1", *deployment.neutron.arguments)
    # The check ignores allocations of a cluster in the same tables.
    for table, values in (
        ("subnets", "'theirs', '192.0.2.0/29', '', TRUE"),
        ("allocations", "'theirs', 'c0000202', 'gantry/c/i', 'k'"),
    ):
        deployment.database.run(deployment.where, f"INSERT INTO gantry_{table} VALUES ({values})")
    assert deployment.neutron.python(PROGRAM, "check", *deployment.neutron.arguments) == ""
    deployment.database.run(deployment.where, "DELETE FROM gantry_allocations WHERE subnet = 'theirs'")
    deployment.database.run(deployment.where, "DELETE FROM gantry_subnets WHERE id = 'theirs'")
    assert server.addresses(deployment.client.list("port", network_id=network)) == server.addresses([kept])
    deployment.fill(network, free=4)


PROGRAM = "gantry.ipam.neutron.program"


def _ask(client: server.Client, body: dict[str, object]) -> None:
    try:
        client.call("POST", "/v2.0/ports", body)
    except OSError:
        return


FORM = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'public' AND table_name NOT LIKE 'gantry%' ORDER BY 1, 2
"""


@pytest.mark.promise("ipam-28")
def test_neutrons_own_tables_are_not_changed(deployment: Deployment) -> None:
    deployment.client.network("192.0.2.0/28")
    with leftovers.folder("gq") as name:
        fresh = server.Neutron(Path(name), deployment.database.create("fresh"))
        fresh.plug()
        fresh.prepare()
    assert deployment.database.run("neutron", FORM) == deployment.database.run("fresh", FORM) != []


def test_a_repair_imports_the_addresses_of_an_existing_neutron() -> None:
    with postgres.running() as database:
        url = database.create("gantry")
        with server.running(database.create("neutron"), url, driver="internal") as (neutron, client):
            network, subnet = client.network("192.0.2.0/29")
            two = [{"subnet_id": subnet}, {"subnet_id": subnet}]
            port = client.create("port", network_id=network, fixed_ips=two)
            client.network("2001:db8::/64")
            neutron.kill(client.port)
            neutron.driver = "gantry"
            neutron.configure()
            neutron.python(PROGRAM, "repair", "--pause", "0", *neutron.arguments)
            client = neutron.start(workers=2)
            deployment = Deployment(database, neutron, client)
            assert deployment.allocated(subnet) == 2
            deployment.fill(network, free=3)
            client.delete("port", port["id"])
            deployment.fill(network, free=2)


def test_without_the_drivers_database_a_port_is_refused_and_later_created() -> None:
    with (
        postgres.running() as url,
        postgres.running() as neutron_database,
        server.running(neutron_database.create("neutron"), url.create("gantry")) as (_, client),
    ):
        network, _subnet = client.network("192.0.2.0/29")
        client.create("port", network_id=network)
        url.stop(signal.SIGQUIT)
        assert client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 503
        assert len(client.list("port", network_id=network)) == 1
        url.start()
        client.create("port", network_id=network)
