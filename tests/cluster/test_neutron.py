"""The Neutron API of real daemons: many at once, a master that comes and goes, bodies that are too long."""

import base64
import functools
import http.client
import json
import subprocess
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests import ports
from tests.cluster import lab

RANGES, NETWORKS = "/v2.0/network_segment_ranges", "/v2.0/networks"
TOGETHER = 20


class Api:
    """The Neutron API of a cluster, by default for everybody on this machine."""

    def __init__(self, cluster: lab.Lab, *, auth: str = "none") -> None:
        self.cluster = cluster
        self.port = ports.free()
        where = ["--bind", "127.0.0.1", "--no-ssl", "--port", str(ports.free()), "--neutron-port", str(self.port)]
        options = ["--neutron-auth", auth, "--root", str(cluster.master)]
        self.daemon = subprocess.Popen([lab.BIN / "gantry-rapi", *where, *options])
        lab.wait_until(lambda: lab.listens(self.port), "the Neutron API")

    def say(self, method: str, path: str, body: object = None, *, who: str = "") -> tuple[int, dict[str, object]]:
        """Send a request on a connection of its own, with the user's password if there is a user."""
        login = {"Authorization": "Basic " + base64.b64encode(f"{who}:secret".encode()).decode()} if who else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **login})
            answer = connection.getresponse()
            content = answer.read()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return answer.status, msgspec.convert(json.loads(content), dict[str, object]) if content and is_json else {}
        finally:
            connection.close()

    def create(self, path: str, values: dict[str, object]) -> dict[str, object]:
        status, answer = self.say("POST", path, {path.rpartition("/")[2].removesuffix("s"): values})
        assert status == 201, answer
        (created_object,) = answer.values()
        return msgspec.convert(created_object, dict[str, object])

    def together(self, *work: Callable[[], tuple[int, dict[str, object]]]) -> list[int]:
        """Send requests at one moment; return their statuses in order."""
        start, results = threading.Barrier(len(work)), [0] * len(work)

        def run(index: int) -> None:
            start.wait(60)
            results[index] = work[index]()[0]

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(work))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        return results

    def close(self) -> None:
        self.daemon.terminate()
        self.daemon.wait(lab.TIMEOUT)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.run("gnt-cluster", "modify", "--segment-ranges", "yes")
        api = Api(cluster_lab)
        yield api
        api.close()


def _range(minimum: int, maximum: int, **more: object) -> dict[str, object]:
    values = {"network_type": "vxlan", "minimum": minimum, "maximum": maximum, **more}
    return {"network_segment_range": values}


def test_of_ranges_that_overlap_one_is_made_however_many_ask(api: Api) -> None:
    def ask(index: int) -> Callable[[], tuple[int, dict[str, object]]]:
        return lambda: api.say("POST", RANGES, _range(1000 + index, 1100 + index, name="race"))

    results = api.together(*map(ask, range(TOGETHER)))
    assert sorted(results) == [201] + [409] * (TOGETHER - 1)
    rows = api.say("GET", f"{RANGES}?name=race")[1]["network_segment_ranges"]
    assert isinstance(rows, list)
    assert len(rows) == 1
    assert api.say("DELETE", f"{RANGES}/{rows[0]['id']}")[0] == 204


def test_a_range_goes_or_gives_an_id_but_never_both(api: Api) -> None:
    for round_ in range(3):
        key = api.create(RANGES, {"network_type": "gre", "minimum": 1, "maximum": TOGETHER})["id"]
        request: list[Callable[[], tuple[int, dict[str, object]]]] = [
            lambda: api.say("POST", NETWORKS, {"network": {"name": "raced"}}) for _ in range(TOGETHER - 1)
        ]
        request.insert(round_ * 7, functools.partial(api.say, "DELETE", f"{RANGES}/{key}"))
        results = api.together(*request)
        gone, networks = results.pop(round_ * 7), results
        assert gone in (204, 409)
        assert set(networks) <= {201, 503}
        rows = api.say("GET", f"{NETWORKS}?name=raced")[1]["networks"]
        assert isinstance(rows, list)
        assert len(rows) == networks.count(201)
        ids = [row["provider:segmentation_id"] for row in rows]
        assert len(set(ids)) == len(ids)
        if gone == 204:
            assert ids == []
        for row in rows:
            assert api.say("DELETE", f"{NETWORKS}/{row['id']}")[0] == 204
        if gone == 409:
            assert api.say("DELETE", f"{RANGES}/{key}")[0] == 204


def test_a_subnet_that_runs_out_gives_each_address_once(api: Api) -> None:
    api.create(RANGES, {"network_type": "geneve", "minimum": 1, "maximum": 1})
    network = api.create(NETWORKS, {"name": "small"})
    api.create("/v2.0/subnets", {"network_id": network["id"], "ip_version": 4, "cidr": "192.0.2.0/28"})
    request = {"port": {"network_id": network["id"]}}
    results = api.together(*[lambda: api.say("POST", "/v2.0/ports", request)] * TOGETHER)
    assert sorted(results) == [201] * 13 + [409] * (TOGETHER - 13)
    ports = api.say("GET", f"/v2.0/ports?network_id={network['id']}")[1]["ports"]
    assert isinstance(ports, list)
    assert len({port["fixed_ips"][0]["ip_address"] for port in ports}) == 13
    for port in ports:
        assert api.say("DELETE", f"/v2.0/ports/{port['id']}")[0] == 204
    assert api.say("DELETE", f"{NETWORKS}/{network['id']}")[0] == 204


@pytest.mark.promise("segments-76")
def test_what_others_store_is_what_the_api_shows_and_works_on(api: Api) -> None:
    words = ("--network-type", "vxlan", "--minimum", "7000", "--maximum", "7001", "elsewhere")
    key = api.cluster.run("gantry", "segment", "range", "create", *words).stdout.strip()
    current = api.say("GET", f"{RANGES}/{key}")[1]["network_segment_range"]
    assert isinstance(current, dict)
    assert (current["name"], current["available"]) == ("elsewhere", [7000, 7001])
    api.cluster.run("gantry", "segment", "range", "set", "--maximum", "7009", key)
    changed = api.say("PUT", f"{RANGES}/{key}", {"network_segment_range": {"minimum": 7009}})[1][
        "network_segment_range"
    ]
    assert isinstance(changed, dict)
    assert (changed["available"], changed["revision_number"]) == ([7009], 2)
    api.cluster.run("gantry", "segment", "range", "delete", key)
    assert api.say("GET", f"{RANGES}/{key}")[0] == 404


def test_a_port_is_the_nic_of_a_guest_and_a_port_again(api: Api) -> None:
    net = api.create(NETWORKS, {"name": "guests", "provider:network_type": "local"})
    api.create("/v2.0/subnets", {"network_id": net["id"], "ip_version": 4, "cidr": "10.3.0.0/24"})
    api.cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", "guests", "default")
    port = api.create("/v2.0/ports", {"network_id": net["id"], "name": "p1"})

    def port_list() -> list[tuple[object, ...]]:
        answer = api.say("GET", f"/v2.0/ports?network_id={net['id']}")[1]["ports"]
        assert isinstance(answer, list)
        return [tuple(each[name] for name in ("id", "mac_address", "fixed_ips", "device_owner")) for each in answer]

    api.cluster.run("gnt-instance", "add", "-t", "diskless", "-n", "node1", "--net", "0:port=p1", "vm.example")
    assert port_list() == [(port["id"], port["mac_address"], port["fixed_ips"], "compute:gantry")]
    assert api.say("DELETE", f"/v2.0/ports/{port['id']}")[0] == 409
    api.cluster.kill_master()
    api.cluster.start_master()
    lab.wait_until(lambda: api.say("GET", NETWORKS)[0] == 200, "the Neutron API and its master")
    assert port_list() == [(port["id"], port["mac_address"], port["fixed_ips"], "compute:gantry")]
    api.cluster.run("gnt-instance", "remove", "-f", "vm.example")
    assert port_list() == [(port["id"], port["mac_address"], port["fixed_ips"], "")]
    assert api.say("DELETE", f"/v2.0/ports/{port['id']}")[0] == 204
    assert api.say("DELETE", f"{NETWORKS}/{net['id']}")[0] == 409  # it is connected
    api.cluster.run("gnt-network", "disconnect", "guests", "default")
    assert api.say("DELETE", f"{NETWORKS}/{net['id']}")[0] == 204


def test_a_body_beyond_ten_megabytes_is_refused(api: Api) -> None:
    body = b'{"network": {"name": "' + b"x" * (11 << 20) + b'"}}'
    assert api.say("POST", NETWORKS, body)[0] == 413
    assert api.say("GET", NETWORKS)[0] == 200


def test_a_master_that_was_away_is_met_again(api: Api) -> None:
    assert api.say("GET", NETWORKS)[0] == 200
    api.cluster.kill_master()
    status, answer = api.say("GET", NETWORKS)
    assert status == 502
    assert "NeutronError" in answer
    api.cluster.start_master()
    assert api.say("GET", NETWORKS)[0] == 200


def _ask(port: int, method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json", **headers})
    return connection.getresponse()


@pytest.mark.parametrize("line", ["anna secret project=blue", "anna secret project=green,role=reader", ""])
def test_a_token_of_a_daemon_ends_when_its_user_loses_the_project_or_the_role(api: Api, line: str) -> None:
    users, port = api.cluster.master / "lib/users", ports.free()
    users.write_text("anna secret project=green\n")
    where = ["--bind", "127.0.0.1", "--no-ssl", "--port", str(ports.free()), "--neutron-port", str(port)]
    daemon = subprocess.Popen([lab.BIN / "gantry-rapi", *where, "--root", str(api.cluster.master)])
    try:
        lab.wait_until(lambda: lab.listens(port), "the Neutron API with passwords")
        user = {"name": "anna", "password": "secret", "domain": {"id": "default"}}
        login = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
        issued = _ask(port, "POST", "/v3/auth/tokens", login)
        token = {"X-Auth-Token": issued.headers["X-Subject-Token"]}
        assert (issued.status, _ask(port, "GET", NETWORKS, **token).status) == (201, 200)
        users.write_text(f"# anna secret project=green\n{line}\n")
        assert _ask(port, "GET", NETWORKS, **token).status == 401
    finally:
        daemon.terminate()
        daemon.wait(lab.TIMEOUT)
        users.unlink()
