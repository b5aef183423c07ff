"""The driver and Neutron's transactions: what Neutron did not keep is not kept, whoever fails and however often."""

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

# Run by PostgreSQL within COMMIT, after all else of a transaction: the first commit of a port with this name fails as
# after a deadlock, that of another one takes long enough to kill the server.
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


class Place:
    """A Neutron with both its databases."""

    def __init__(self, database: postgres.Server, neutron: server.Neutron, client: server.Client) -> None:
        self.database = database
        self.neutron = neutron
        self.client = client
        self.where = "gantry" if neutron.own else "neutron"

    def allocated(self, subnet: str) -> int:
        count = f"SELECT count(*) FROM gantry_allocations WHERE subnet = '{subnet}'"
        return int(self.database.run(self.where, count)[0][0])

    def full(self, network: str, *, free: int) -> None:
        """Expect so many addresses to be free, and take them."""
        for _ in range(free):
            self.client.create("port", network_id=network)
        assert self.client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 409


@pytest.fixture(scope="module", params=["beside Neutron's tables", "in Neutron's database"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with postgres.running() as database:
        own = database.create("gantry") if request.param.startswith("beside") else ""
        with server.running(database.create("neutron"), own) as (neutron, client):
            database.run("neutron", TRAP)
            yield Place(database, neutron, client)


def test_posts_with_an_unknown_security_group_leave_no_address_behind(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/29")
    for _ in range(6):
        port = {"network_id": network, "security_groups": [UNKNOWN]}
        assert place.client.call("POST", "/v2.0/ports", {"port": port})[0] == 404
    assert place.allocated(subnet) == 0
    place.full(network, free=5)


def test_a_commit_that_fails_is_tried_again_and_succeeds_with_one_address(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/29")
    named = {"ip_address": "192.0.2.3", "subnet_id": subnet}
    assert place.client.create("port", network_id=network, name="fails once", fixed_ips=[named])["fixed_ips"] == [named]
    assert place.allocated(subnet) == 1


def test_an_update_that_fails_at_its_commit_changes_no_address(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/29")
    port = place.client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.3"}])
    change = {"name": "fails", "fixed_ips": [{"ip_address": "192.0.2.4"}]}
    assert place.client.call("PUT", f"/v2.0/ports/{port['id']}", {"port": change})[0] == 500
    assert server.addresses(place.client.list("port", id=port["id"])) == ["192.0.2.3"]
    assert place.allocated(subnet) == 1
    place.full(network, free=4)


def test_a_bulk_that_fails_at_its_commit_leaves_no_address_behind(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/28")
    ports = [{"network_id": network, "name": name} for name in ("a", "b", "fails")]
    assert place.client.call("POST", "/v2.0/ports", {"ports": ports})[0] == 500
    assert place.allocated(subnet) == 0


@pytest.mark.promise("ipam-22")
def test_after_its_ports_a_subnet_leaves_nothing_behind(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/28")
    port = place.client.create("port", network_id=network)
    place.client.delete("port", port["id"])
    place.client.delete("subnet", subnet)
    for table, column in (("subnets", "id"), ("pools", "subnet"), ("ranges", "subnet"), ("allocations", "subnet")):
        assert place.database.run(place.where, f"SELECT * FROM gantry_{table} WHERE {column} = '{subnet}'") == []


@pytest.mark.promise("ipam-37")
def test_a_server_killed_before_neutrons_commit_leaves_what_a_check_finds_and_a_repair_frees(place: Place) -> None:
    network, subnet = place.client.network("192.0.2.0/29")
    kept = place.client.create("port", network_id=network)
    doomed = place.neutron.start(workers=1)
    body = {"port": {"network_id": network, "name": "waits"}}
    asking = threading.Thread(target=_ask, args=(doomed, body))
    asking.start()
    sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    backend = lab.until(lambda: place.database.run("neutron", sleeping), "no commit waits")[0][0]
    place.neutron.kill(doomed.port, signal.SIGKILL)
    asking.join()
    place.database.run("neutron", f"SELECT pg_terminate_backend({backend})")
    lab.until(lambda: not place.database.run("neutron", sleeping), "the commit still waits")
    left = place.allocated(subnet) - 1
    assert left == (1 if place.neutron.own else 0)
    if left:
        said = place.neutron.python(PROGRAM, "check", "--pause", "1", *place.neutron.arguments, code=1)
        assert f"of subnet {subnet}: allocated, but no port has it" in said
        place.neutron.python(PROGRAM, "repair", "--pause", "1", *place.neutron.arguments)
    # What a cluster has in the same tables is nobody's business here.
    for table, values in (
        ("subnets", "'theirs', '192.0.2.0/29', '', TRUE"),
        ("allocations", "'theirs', 'c0000202', 'gantry/c/i', 'k'"),
    ):
        place.database.run(place.where, f"INSERT INTO gantry_{table} VALUES ({values})")
    assert place.neutron.python(PROGRAM, "check", *place.neutron.arguments) == ""
    place.database.run(place.where, "DELETE FROM gantry_allocations WHERE subnet = 'theirs'")
    place.database.run(place.where, "DELETE FROM gantry_subnets WHERE id = 'theirs'")
    assert server.addresses(place.client.list("port", network_id=network)) == server.addresses([kept])
    place.full(network, free=4)


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
def test_neutrons_own_tables_keep_their_form(place: Place) -> None:
    place.client.network("192.0.2.0/28")
    with leftovers.folder("gq") as name:
        fresh = server.Neutron(Path(name), place.database.create("fresh"))
        fresh.plug()
        fresh.prepare()
    assert place.database.run("neutron", FORM) == place.database.run("fresh", FORM) != []


def test_an_existing_neutron_moves_to_the_driver_by_a_repair() -> None:
    with postgres.running() as database:
        own = database.create("gantry")
        with server.running(database.create("neutron"), own, driver="internal") as (neutron, client):
            network, subnet = client.network("192.0.2.0/29")
            two = [{"subnet_id": subnet}, {"subnet_id": subnet}]
            held = client.create("port", network_id=network, fixed_ips=two)
            client.network("2001:db8::/64")
            neutron.kill(client.port)
            neutron.driver = "gantry"
            neutron.configure()
            neutron.python(PROGRAM, "repair", "--pause", "0", *neutron.arguments)
            client = neutron.start(workers=2)
            place = Place(database, neutron, client)
            assert place.allocated(subnet) == 2
            place.full(network, free=3)
            client.delete("port", held["id"])
            place.full(network, free=2)


def test_without_the_drivers_database_a_port_is_refused_and_later_made() -> None:
    with (
        postgres.running() as own,
        postgres.running() as theirs,
        server.running(theirs.create("neutron"), own.create("gantry")) as (_, client),
    ):
        network, _subnet = client.network("192.0.2.0/29")
        client.create("port", network_id=network)
        own.stop(signal.SIGQUIT)
        assert client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 503
        assert len(client.list("port", network_id=network)) == 1
        own.start()
        client.create("port", network_id=network)
