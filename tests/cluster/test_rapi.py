"""The remote API as a process of its own, asked over HTTPS with a users file, as programs elsewhere do."""

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import bcrypt
import pytest
import yaml
from prometheus_client import parser
from tests import ports
from tests.cluster import lab

from gantry import security

CERTIFICATE_END = "gantry_certificate_end_timestamp_seconds"
HASH = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
LINE = re.compile(
    r'127\.0\.0\.1 - (\S+) \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "([A-Z]+) (\S+) HTTP/1\.1" '
    r'(\d{3}) (\d+|-) "([^"]*)" "([^"]*)"'
)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> object:
        value: object = json.loads(self.body)
        return value


@dataclass(frozen=True)
class Remote:
    cluster: lab.Lab
    port: int

    def ask(
        self, method: str, path: str, body: object = None, *, login: str = "alice:s3cret", **headers: str
    ) -> Answer:
        context = ssl.create_default_context(cafile=str(self.cluster.master / "lib/certs/authority.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=120)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if login:
            sent["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        data = None if body is None else json.dumps(body)
        if data:
            sent["Content-Type"] = "application/json"
        with contextlib.closing(connection):
            connection.request(method, path, body=data, headers=sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def done(self, method: str, path: str, body: object = None) -> object:
        """Submit a job, poll until it has ended well, and return its results."""
        answer = self.ask(method, path, body)
        assert answer.status == 200, answer.body
        for _ in range(600):
            job = self.ask("GET", f"/2/jobs/{answer.value}").value
            assert isinstance(job, dict)
            if job["status"] in ("success", "error", "canceled"):
                assert job["status"] == "success", job["opresult"]
                return job["opresult"]
            time.sleep(0.1)
        raise TimeoutError(path)


@contextlib.contextmanager
def served(cluster: lab.Lab, *options: str) -> Iterator[Remote]:
    (cluster.master / "lib/users").write_text(f"# users\n\nalice:{HASH}\nbob secret read\n")
    port = ports.free()
    where = ["--bind", "127.0.0.1", "--port", str(port), "--root", str(cluster.master)]
    with (cluster.master / "log/rapi.err").open("wb") as stderr:
        daemon = subprocess.Popen([str(lab.BIN / "gantry-rapi"), *where, *options], stderr=stderr)
    remote = Remote(cluster, port)

    def listens() -> bool:
        assert daemon.poll() is None
        with contextlib.suppress(ConnectionRefusedError):
            return remote.ask("GET", "/version", login="").status in (200, 401)
        return False

    try:
        lab.wait_until(listens, "the remote API")
        yield remote
    finally:
        daemon.terminate()
        daemon.wait(60)


def scraped(remote: Remote) -> dict[tuple[str, str], float]:
    """Return the metrics by name, and by kind and node of a certificate."""
    answer = remote.ask("GET", "/metrics", Accept="text/plain")
    assert answer.status == 200, answer.body
    return {
        (sample.name, " ".join(filter(None, map(sample.labels.get, ("certificate", "node"))))): sample.value
        for family in parser.text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_network()
        with served(cluster_lab) as running:
            yield running


@pytest.mark.promise("cluster-7", "cluster-127", "cluster-130")
def test_an_instance_lives_and_dies_over_https(remote: Remote) -> None:
    assert remote.ask("GET", "/version").value == 2
    body = {
        "__version__": 1, "name": "web1", "os": "plain", "disk_template": "file", "disks": [{"size": "16m"}],
        "nics": [{"network": "net1", "ip": "lan4"}], "pnode": "node1", "mode": "create",
    }  # fmt: skip
    remote.done("POST", "/2/instances", body)
    instance = remote.ask("GET", "/2/instances/web1").value
    assert isinstance(instance, dict)
    assert (instance["name"], instance["status"], instance["pnode"]) == ("web1", "running", "node1")
    assert instance["beparams"]["memory"] == instance["beparams"]["maxmem"]
    listed = remote.ask("GET", "/2/instances").value
    assert listed == [{"id": "web1", "uri": "/2/instances/web1"}]
    remote.done("PUT", "/2/instances/web1/shutdown", {"timeout": 1})
    assert remote.ask("POST", "/2/instances/web1/reboot?type=hard").status == 200
    remote.done("DELETE", "/2/instances/web1?shutdown_timeout=1", {})
    gone = remote.ask("GET", "/2/instances/web1")
    assert (gone.status, gone.value) == (
        404, {"code": 404, "message": "Not Found", "explain": "no such instance: web1"}
    )  # fmt: skip


def test_networks_groups_tags_and_nodes_are_changed_by_their_own_paths(remote: Remote) -> None:
    remote.done("POST", "/2/networks", {"network_name": "dmz", "network": "198.51.100.0/24", "tags": None})
    remote.done(
        "PUT", "/2/networks/dmz/connect", {"group_name": "default", "network_mode": "routed", "network_link": "x"}
    )
    remote.done("PUT", "/2/networks/dmz/tags?tag=a&tag=b")
    assert remote.ask("GET", "/2/networks/dmz/tags").value == ["a", "b"]
    remote.done("DELETE", "/2/networks/dmz/tags?tag=a")
    remote.done("PUT", "/2/networks/dmz/disconnect", {"group_name": "default"})
    remote.done("PUT", "/2/networks/dmz/rename", {"new_name": "dmz2"})
    remote.done("DELETE", "/2/networks/dmz2")
    remote.done("POST", "/2/groups", {"name": "rack2"})
    remote.done("PUT", "/2/groups/rack2/modify", {"alloc_policy": "last_resort"})
    remote.done("DELETE", "/2/groups/rack2")
    remote.done("PUT", "/2/modify", {"candidate_pool_size": 3})
    assert remote.ask("GET", "/2/nodes/node1/role").value == "master"
    assert remote.ask("GET", "/2/os").value == ["plain"]


@pytest.mark.slow
def test_metrics_have_the_ends_of_the_certificates_with_and_without_a_master() -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        recorded = dict(cluster_lab.rows("gnt-node", "name,certificate_end"))
        with served(cluster_lab) as remote:
            samples = scraped(remote)
            assert samples["gantry_up", ""] == 1
            for name in ("node1", "node2"):
                end = time.localtime(samples[CERTIFICATE_END, f"node {name}"])
                assert time.strftime("%Y-%m-%d %H:%M:%S", end) == recorded[name]
            own = (cluster_lab.master / "lib/certs/node.pem").read_bytes()
            assert samples[CERTIFICATE_END, "node node1"] == security.end_of(own)
            assert samples[CERTIFICATE_END, "authority node1"] > time.time() + 19 * 365 * 86400
            assert (CERTIFICATE_END, "remote_api node1") not in samples
            cluster_lab.run("gnt-cluster", "renew-crypto", "--new-rapi-certificate")
            assert scraped(remote)[CERTIFICATE_END, "remote_api node1"] >= samples[CERTIFICATE_END, "node node1"]
            pid = cluster_lab.master_pid()
            os.kill(pid, signal.SIGSTOP)
            try:
                without_master = scraped(remote)
            finally:
                os.kill(pid, signal.SIGCONT)
            assert without_master["gantry_up", ""] == 0
            assert (CERTIFICATE_END, "node node2") not in without_master
            assert without_master[CERTIFICATE_END, "node node1"] == samples[CERTIFICATE_END, "node node1"]
            lab.wait_until(lambda: scraped(remote)["gantry_up", ""] == 1, "the master's answer")


@pytest.mark.promise("cluster-128")
def test_an_object_has_its_version_as_etag_and_is_not_sent_twice(remote: Remote) -> None:
    first = remote.ask("GET", "/2/groups/default")
    assert isinstance(first.value, dict)
    assert first.headers["ETag"].startswith(f'"{first.value["serial_no"]}-')
    same = remote.ask("GET", "/2/groups/default", If_None_Match=first.headers["ETag"])
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", first.headers["ETag"])
    remote.done("PUT", "/2/groups/default/modify", {"alloc_policy": "last_resort"})
    changed = remote.ask("GET", "/2/groups/default", If_None_Match=first.headers["ETag"])
    assert changed.status == 200
    assert changed.headers["ETag"] != first.headers["ETag"]
    for tag, status in ((first.headers["ETag"], 412), (changed.headers["ETag"], 200)):
        body = {"alloc_policy": "preferred"}
        assert remote.ask("PUT", "/2/groups/default/modify?dry-run=1", body, If_Match=tag).status == status
    remote.done("PUT", "/2/groups/default/modify", {"alloc_policy": "preferred"})


@pytest.mark.promise("cluster-129")
def test_the_seeds_paths_mean_the_same(remote: Remote) -> None:
    remote.done("PUT", "/lab.example/tag?tag=prod")
    tags = remote.ask("GET", "/2/tags").value
    assert isinstance(tags, list)
    assert "prod" in tags
    for path in ("/lab.example/tag", "/2/lab.example/tag"):
        assert remote.ask("GET", path).value == tags
    assert remote.ask("GET", "/lab.example/nodes").value == remote.ask("GET", "/2/nodes").value
    node_tags = remote.ask("GET", "/lab.example/nodes/node1/tag").value
    assert node_tags == remote.ask("GET", "/2/nodes/node1/tags").value
    assert isinstance(node_tags, list)
    assert remote.ask("GET", "/elsewhere.example/nodes").status == 404


@pytest.mark.promise("cluster-131")
def test_the_accept_header_chooses_the_representation(remote: Remote) -> None:
    as_json = remote.ask("GET", "/2/groups/default", Accept="application/json")
    as_yaml = remote.ask("GET", "/2/groups/default", Accept="application/yaml, */*;q=0.1")
    assert as_yaml.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(as_yaml.body) == as_json.value
    with pytest.raises(ValueError):
        json.loads(as_yaml.body)
    assert remote.ask("GET", "/2/groups/default", Accept="application/xml").status == 406


@pytest.mark.promise("cluster-132")
def test_only_users_of_the_file_with_their_password_may_change_things(remote: Remote) -> None:
    for login in ("", "alice:wrong", "nobody:s3cret"):
        refused = remote.ask("PUT", "/2/tags?tag=stolen", login=login)
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"] == 'Basic realm="Ganeti Remote API"'
    assert remote.ask("GET", "/2/tags", login="").status == 401
    assert remote.ask("GET", "/2/tags", login="alice:wrong").status == 401
    remote.done("PUT", "/2/tags?tag=allowed")
    # Now the daemon has seen the right passwords of two users.
    assert remote.ask("GET", "/2/query/node?fields=name", login="bob:secret").status == 200
    for login in ("alice:wrong", "alice:secret", "alice:", "bob:s3cret", "bob:secre"):
        assert remote.ask("GET", "/2/query/node?fields=name", login=login).status == 401
    tags = remote.ask("GET", "/2/tags").value
    assert isinstance(tags, list)
    assert "allowed" in tags
    assert "stolen" not in tags
    plain = http.client.HTTPConnection("127.0.0.1", remote.port, timeout=lab.TIMEOUT)
    with contextlib.closing(plain):
        plain.request("GET", "/version")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()


@pytest.mark.promise("cluster-133")
def test_a_user_without_write_may_only_read(remote: Remote) -> None:
    assert remote.ask("GET", "/2/query/node?fields=name", login="bob:secret").status == 200
    assert remote.ask("GET", "/2/query/node?fields=name", login="").status == 401
    refused = remote.ask("PUT", "/2/tags?tag=x", login="bob:secret")
    assert (refused.status, b"does not have the option write" in refused.body) == (403, True)


@pytest.mark.promise("cluster-134")
def test_a_client_asks_for_changes_of_a_job_and_is_not_called_back(remote: Remote) -> None:
    job = remote.ask("PUT", "/2/redistribute-config").value
    seen: object = None
    while seen != ["success"]:
        body = {"fields": ["status"], "previous_job_info": seen, "previous_log_serial": None}
        change = remote.ask("GET", f"/2/jobs/{job}/wait", body).value
        seen = change["job_info"] if isinstance(change, dict) else seen
    cancelled = remote.ask("DELETE", f"/2/jobs/{job}").value
    assert isinstance(cancelled, list)
    assert (cancelled[0], str(job) in cancelled[1]) == (False, True)


@pytest.mark.promise("cluster-34", "cluster-35")
def test_daemon_and_requests_have_a_log_each_without_secrets(remote: Remote) -> None:
    remote.ask("GET", "/2/info", User_Agent="exporter/1.0", Referer="http://dash.example/")
    remote.ask("GET", "/2/nothing%22here", login="alice:guess-of-a-secret")
    context = ssl.create_default_context(cafile=str(remote.cluster.master / "lib/certs/authority.pem"))
    broken = http.client.HTTPSConnection("127.0.0.1", remote.port, context=context, timeout=lab.TIMEOUT)
    with contextlib.closing(broken):
        broken.connect()
        broken.sock.sendall(b"GET / HTTP/1.1\r\nAuthorization s3cret\r\n\r\n")
        assert b" 400 " in broken.sock.recv(1000)
    folder = remote.cluster.master / "log"
    lines = (folder / "rapi-access.log").read_text().splitlines()
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches)
    (info,) = [match for match in matches if match and match[7] == "exporter/1.0"]
    assert (info[1], info[2], info[3], info[4], info[6]) == ("alice", "GET", "/2/info", "200", "http://dash.example/")
    own = (folder / "rapi-daemon.log").read_text()
    assert f"listens on 127.0.0.1 port {remote.port}" in own
    printed = (folder / "rapi.err").read_text()
    assert f"gantry-rapi: the remote API listens on 127.0.0.1 port {remote.port}\n" in printed
    assert not [word for word in ("s3cret", "guess-of-a-secret", HASH) if word in own + "\n".join(lines)]
    assert {"master-daemon.log", "node-daemon.log"} <= {path.name for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.promise("cluster-8", "cluster-126")
def test_it_is_a_process_of_its_own_that_finds_the_master_again(own: lab.Lab) -> None:
    with served(own, "--require-authentication") as remote:
        assert remote.ask("GET", "/2/info").status == 200
        assert remote.ask("GET", "/2/info", login="").status == 401
        own.kill_master()
        gone = remote.ask("GET", "/2/info")
        assert (gone.status, b"gantry-masterd" in gone.body) == (502, True)
        assert remote.ask("GET", "/version").value == 2
        own.start_master()
        assert remote.ask("GET", "/2/info").status == 200
        remote.done("PUT", "/2/tags?tag=again")
        assert own.run("gnt-cluster", "list-tags").stdout == "again\n"
    with served(own, "--no-require-authentication") as remote:
        assert remote.ask("GET", "/2/info", login="").status == 200
        assert remote.ask("GET", "/2/query/node?fields=name", login="").status == 401


def test_what_is_too_large_or_not_http_is_refused(remote: Remote) -> None:
    assert remote.ask("POST", "/2/groups", "x" * (11 << 20)).status == 413
    assert remote.ask("GET", "/" + "x" * 20_000).status == 400
    assert remote.ask("GET", "/version").status == 200
