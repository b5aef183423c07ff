"""GET /metrics of the remote API: what it contains with and without a master, for whom, and in which format."""

import asyncio
import base64
import functools
import itertools
from collections.abc import Callable, Iterable

import msgspec
import pytest
from prometheus_client import core, parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from gantry import __version__, errors, security
from gantry.daemons import remote
from gantry.doors import http, rapi
from gantry.doors.http import sessions, tokens, users
from gantry.doors.rapi import cluster_metrics, metrics, rights, wire
from gantry.rpc import luxi
from gantry.runtime import http_interface, measures
from gantry.runtime import paths as paths_of_nodes
from gantry.sim import cluster

START = 1_800_000_000.0
NUMBERS = itertools.count()
YEAR = 365 * 86400.0

Values = dict[tuple[str, ...], float]
"""The values of a metric, by its labels."""


class Master:
    """A master daemon with fixed answers, or with an error in place of an answer; counts the calls."""

    def __init__(self, *nodes: tuple[str, float | None], error: errors.GantryError | None = None) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._nodes = nodes
        self._error = error

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        self.calls.append((method, *arguments))
        if self._error:
            raise self._error
        if method != "Query":
            raise errors.ProtocolError(f"no such method: {method}")
        (what, fields, _) = msgspec.convert(arguments, tuple[str, list[str], object])
        known = [{"name": name, "role": "M", "certificate_end": end} for name, end in self._nodes]
        rows = [[(0, node.get(field)) for field in fields] for node in known] if what == "node" else []
        return msgspec.convert({"data": rows}, kind)


class UsedMaster(Master):
    """A master daemon that knows what a node and an instance on it use, and whose users see everything or not."""

    def __init__(self, sees_all: bool | errors.GantryError) -> None:
        super().__init__(("node1", START))
        self._sees_all = sees_all

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method == "QueryUsage":
            fields = ("processor", "memory", "read", "written", "received", "sent")
            used = [
                {"node": "node1", "instance": name, **dict(zip(fields, range(first, first + 6), strict=True))}
                for name, first in (("", 10), ("vm1", 20))
            ]
            return msgspec.convert(used, kind)
        if method != "QueryOwnAccess":
            return await super().call(kind, method, *arguments)
        if isinstance(self._sees_all, errors.GantryError):
            raise self._sees_all
        return msgspec.convert({"sees_all": self._sees_all}, kind)


class Ready:
    """A master daemon that answers what its readiness is asked by; counts these questions."""

    def __init__(self, master: Master) -> None:
        self.questions = 0
        self._master = master

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        if method != "QueryConfigValues":
            return await self._master.call(kind, method, *arguments)
        self.questions += 1
        return msgspec.convert(["node1"], kind)


class SilentMaster:
    """A master daemon that accepts connections and never answers."""

    async def call(self, kind: type[luxi.T], method: str, *arguments: object) -> luxi.T:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def folders(request: pytest.FixtureRequest, lab: cluster.SimulatedCluster) -> paths_of_nodes.Paths:
    """The folders of a machine of the test's own, with the certificate of node1 and its authority."""
    own = paths_of_nodes.Paths.below(f"/{request.node.originalname}/{next(NUMBERS)}")
    authority = security.make_authority("lab.example", START)
    key, signing_request = security.make_request("node1")
    certificate = security.issue(authority, signing_request, uuid="u1", name="node1", address="192.0.2.1", now=START)
    lab.run(lab.master.disk.make_directory(own.certificates))
    for name, content in {"authority.pem": authority.certificates, "node.pem": certificate, "node.key": key}.items():
        lab.run(lab.master.disk.write(f"{own.certificates}/{name}", content))
    return own


def server(
    lab: cluster.SimulatedCluster, master: luxi.Caller, folders: paths_of_nodes.Paths, *, anonymous: bool = True
) -> http.Server:
    known = users.Users(lab.master, folders.users)
    gate = wire.Gate(
        known,
        sessions.Sessions(lab.master, known, secure=True),
        tokens.Tokens(lab.master, known, functools.partial(rights.prove, master)),
        anonymous=anonymous,
    )
    counts = measures.Measures()
    application = rapi.Application(lab.master, master, waiting=master, gate=gate, folders=folders, counts=counts)
    return http.Server(lab.master, application, counts=counts, api="remote")


def ask(
    lab: cluster.SimulatedCluster,
    server: http.Server,
    path: str = "/metrics",
    *,
    method: str = "GET",
    login: str = "",
    **headers: str,
) -> http_interface.Response:
    if login:
        headers["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    return lab.run(server.answer(http_interface.Request(method, path, b"", headers)))


def values(response: http_interface.Response, name: str) -> Values:
    assert response.status == 200, response.body
    samples = [
        sample for family in parser.text_string_to_metric_families(response.body.decode()) for sample in family.samples
    ]
    labels = metrics.METRICS[name].labels
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in samples if sample.name == name}


def test_it_has_the_certificates_of_all_nodes_and_of_this_machine(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths
) -> None:
    disk, master = lab.master.disk, Master(("node1", START + 5), ("node2", START + 6.5), ("node3", None))
    other = security.make_authority("lab.example", START + 100)
    authorities = disk.read(f"{folders.certificates}/authority.pem") + other.certificates
    lab.run(disk.write(f"{folders.certificates}/authority.pem", authorities))
    lab.run(disk.write(folders.remote_certificate, disk.read(f"{folders.certificates}/node.pem") + other.certificates))
    first, second = security.facts_of_each(authorities)
    (own,) = security.facts_of_each(disk.read(f"{folders.certificates}/node.pem"))
    answer = ask(lab, server(lab, master, folders))
    assert values(answer, metrics.CERTIFICATE_END) == {
        ("node", "node1", ""): START + 5,
        ("node", "node2", ""): START + 6.5,
        ("authority", "node1", first.serial): first.end,
        ("authority", "node1", second.serial): second.end,
        ("remote_api", "node1", own.serial): own.end,
    }
    assert values(answer, metrics.UP) == {(): 1}
    assert values(answer, metrics.BUILD) == {(__version__,): 1}
    assert own.end == pytest.approx(START + YEAR, abs=8 * 86400)


def test_a_scrape_is_one_query_for_each_kind_of_object(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths
) -> None:
    master = Master(*((f"node{number}", START) for number in range(1000)))
    assert len(values(ask(lab, server(lab, master, folders)), metrics.CERTIFICATE_END)) == 1001
    assert [call[:2] for call in master.calls] == [
        *(("Query", kind) for kind in cluster_metrics.QUERIES),
        ("QueryMeasures",),
        ("QueryUsage",),
        ("QueryOwnAccess",),
    ]


def test_it_has_what_the_cluster_has(lab: cluster.SimulatedCluster) -> None:
    pool = {"range": "198.51.100.10-198.51.100.19", "name": "ten"}
    added = {"network_name": "pooled", "subnets": [{"cidr": "198.51.100.0/24"}], "pools": [pool]}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", **added}))
    connection = {"network_mode": "routed", "network_link": "main"}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_CONNECT", "network_name": "pooled", "group_name": "default", **connection}))
    nic = {"network": "pooled", "ip": "198.51.100.12"}
    op = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm2", "disk_template": "diskless", "nics": [nic]}
    lab.run(lab.done(op))
    waiting = lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 100, "on_master": True, "on_nodes": []}))
    lab.run(lab.master.clock.sleep(1))
    answer = ask(lab, remote.server(lab.master, cluster.FOLDERS, anonymous=True))
    assert values(answer, "gantry_node_up") == {("node1",): 1}
    assert values(answer, "gantry_node_role") == {("node1", "M"): 1}
    assert values(answer, "gantry_node_memory_bytes") == {("node1",): 16 * 2**30}
    instances = values(answer, "gantry_instances")
    assert (instances["node1", "ADMIN_down"], instances["node1", "running"]) == (1, 1)
    key = ("pooled", "198.51.100.0/24", "198.51.100.10-198.51.100.19", "ten")
    assert values(answer, "gantry_pool_addresses")[key] == 10
    assert values(answer, "gantry_pool_free_addresses")[key] == 9
    assert values(answer, "gantry_network_used_addresses")["pooled",] == 1
    assert values(answer, "gantry_jobs") == {("queued",): 0, ("waiting",): 0, ("running",): 1, ("canceling",): 0}
    oldest = values(answer, "gantry_jobs_oldest_timestamp_seconds")
    assert oldest.keys() == {("running",)}
    assert oldest["running",] == pytest.approx(lab.world.clock.now(), abs=5)
    lab.run(lab.luxi("CancelJob", waiting, True))


def test_a_segment_range_has_all_its_ids_and_those_that_are_free(lab: cluster.SimulatedCluster) -> None:
    lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": True}))
    spec = {"name": "lab", "network_type": "vxlan", "minimum": 9000, "maximum": 9099}
    lab.run(lab.done({"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [spec]}))
    segment = {"network_type": "vxlan", "segment": 9007}
    lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "segmented", **segment}))
    answer = ask(lab, remote.server(lab.master, cluster.FOLDERS, anonymous=True))
    assert values(answer, "gantry_segment_range_ids")["lab", "vxlan"] == 100
    assert values(answer, "gantry_segment_range_free_ids")["lab", "vxlan"] == 99


def test_a_node_that_does_not_answer_is_not_up_and_has_no_figures(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths
) -> None:
    answer = ask(lab, server(lab, Master(("node1", START)), folders))
    assert values(answer, "gantry_node_up") == {("node1",): 0}
    assert values(answer, "gantry_node_memory_bytes") == {}


@pytest.mark.parametrize(
    "master",
    [Master(error=errors.RemoteError()), Master(error=errors.NotMasterError()), SilentMaster()],
    ids=["ended", "not the master", "silent"],
)
def test_without_an_answer_of_the_master_it_has_what_the_machine_knows(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths, master: luxi.Caller
) -> None:
    start = lab.master.clock.monotonic()
    answer = ask(lab, server(lab, master, folders))
    assert lab.master.clock.monotonic() - start < 10, "Prometheus gives up after ten seconds"
    assert values(answer, metrics.UP) == {(): 0}
    assert [labels[:2] for labels in values(answer, metrics.CERTIFICATE_END)] == [
        ("node", "node1"),
        ("authority", "node1"),
    ]


def test_it_has_what_nodes_and_instances_use(lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths) -> None:
    answer = ask(lab, server(lab, UsedMaster(True), folders))
    ends: tuple[str, ...] = (
        "processor_seconds_total",
        "memory_used_bytes",
        "disk_read_bytes_total",
        "disk_written_bytes_total",
    )
    ends += ("network_received_bytes_total", "network_sent_bytes_total")
    for position, end in enumerate(ends):
        assert values(answer, f"gantry_node_{end}") == {("node1",): 10 + position}
        assert values(answer, f"gantry_instance_{end}") == {("vm1", "node1"): 20 + position}


@pytest.mark.parametrize(
    ("sees_all", "kinds"),
    [
        (True, {"node", "authority"}),
        (False, {"node"}),
        (errors.ProtocolError("no such method: QueryOwnAccess"), {"node", "authority"}),
        (errors.RemoteError("the connection is lost"), {"node"}),
    ],
)
def test_what_the_machine_knows_is_for_who_sees_the_whole_cluster(
    lab: cluster.SimulatedCluster,
    folders: paths_of_nodes.Paths,
    sees_all: bool | errors.GantryError,
    kinds: set[str],
) -> None:
    answer = ask(lab, server(lab, UsedMaster(sees_all), folders))
    assert {labels[0] for labels in values(answer, metrics.CERTIFICATE_END)} == kinds


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None])
@pytest.mark.parametrize("name", ["certs/authority.pem", "certs/node.pem", "rapi.pem"])
def test_a_file_that_cannot_be_read_is_logged_and_the_rest_is_answered(
    lab: cluster.SimulatedCluster,
    folders: paths_of_nodes.Paths,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes | None,
) -> None:
    path, disk = f"{folders.lib}/{name}", lab.master.disk
    if content is not None:
        lab.run(disk.write(path, content))
    elif disk.exists(path):
        lab.run(disk.remove(path))
    kinds = {
        labels[0]
        for labels in values(ask(lab, server(lab, Master(("node1", START)), folders)), metrics.CERTIFICATE_END)
    }
    assert kinds == ({"node"} if "authority" in name else {"node", "authority"})
    is_optional = name == "rapi.pem" and content is None
    assert (path in caplog.text) is not is_optional


def test_it_is_open_unless_the_daemon_requires_a_login(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths
) -> None:
    lab.run(lab.master.disk.write(folders.users, b"monitor secret\n"))
    everybody, known = (server(lab, Master(), folders, anonymous=anonymous) for anonymous in (True, False))
    assert ask(lab, everybody).status == 200
    assert ask(lab, everybody, login="monitor:guess").status == 401
    refused = ask(lab, known)
    assert (refused.status, "WWW-Authenticate" in refused.headers) == (401, True)
    assert b"gantry_" not in refused.body
    assert ask(lab, known, login="monitor:secret").status == 200


def test_it_is_read_only(lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths) -> None:
    answer = ask(lab, server(lab, Master(), folders), method="POST")
    assert answer.status == 501
    assert b"it supports GET" in answer.body


@pytest.mark.parametrize("accept", ["", "text/plain", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "text/html"])
def test_every_client_gets_the_text_of_prometheus(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths, accept: str
) -> None:
    answer = ask(lab, server(lab, Master(), folders), accept=accept)
    assert (answer.status, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")


@pytest.mark.parametrize("version", ["1.0.0", "0.0.1", "x", "99999999999999999999"])
def test_a_client_that_accepts_openmetrics_gets_that(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths, version: str
) -> None:
    accept = f"application/openmetrics-text;version={version};q=0.75,text/plain;version=0.0.4;q=0.5"
    answer = ask(lab, server(lab, Master(("node1", START)), folders), accept=accept)
    assert (answer.status, answer.content_type) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    parse: Callable[[str], Iterable[core.Metric]] = openmetrics_parser.text_string_to_metric_families
    families = list(parse(answer.body.decode()))
    assert {family.name for family in families} == {
        name.removesuffix("_info").removesuffix("_total") for name in metrics.METRICS
    }


def test_the_master_of_a_cluster_answers_with_its_nodes(lab: cluster.SimulatedCluster) -> None:
    answer = ask(lab, remote.server(lab.master, cluster.FOLDERS, anonymous=True))
    assert values(answer, metrics.UP) == {(): 1}
    assert [labels[:2] for labels in values(answer, metrics.CERTIFICATE_END)] == [
        ("node", "node1"),
        ("authority", "node1"),
    ]


def samples(response: http_interface.Response, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one name of the text, by the values of all labels in the order of their names."""
    families = parser.text_string_to_metric_families(response.body.decode())
    matching = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(value for _, value in sorted(each.labels.items())): each.value for each in matching}


def test_it_has_what_the_master_counts_and_times(lab: cluster.SimulatedCluster) -> None:
    front_end = remote.server(lab.master, cluster.FOLDERS, anonymous=True)
    before = ask(lab, front_end)
    lab.run(lab.done({"OP_ID": "OP_TEST_DELAY", "duration": 3, "on_master": True, "on_nodes": []}))
    lab.run(lab.done({"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "vm1"}))
    with pytest.raises(errors.ProtocolError):
        lab.run(lab.luxi("NoSuchMethod"))
    after = ask(lab, front_end)

    def growth(name: str, *labels: str) -> float:
        return samples(after, name).get(labels, 0.0) - samples(before, name).get(labels, 0.0)

    assert growth("gantry_job_duration_seconds_count", "success") == 2
    assert growth("gantry_job_duration_seconds_bucket", "+Inf", "success") == 2
    assert growth("gantry_job_duration_seconds_bucket", "1.0", "success") <= 1
    assert growth("gantry_job_duration_seconds_sum", "success") >= 3
    assert growth("gantry_journal_records_total") >= growth("gantry_journal_write_duration_seconds_count") > 0
    assert growth("gantry_journal_copy_duration_seconds_count") > 0
    assert growth("gantry_node_call_duration_seconds_count", "instance_start", "done") == 1
    assert growth("gantry_luxi_request_duration_seconds_count", "SubmitJob", "done") == 2
    assert 0 <= growth("gantry_luxi_request_duration_seconds_sum", "SubmitJob", "done") < 2
    assert growth("gantry_luxi_request_duration_seconds_count", "unknown", "ProtocolError") == 1
    assert samples(after, "gantry_replication_stalled") == {(): 0}


def test_each_candidate_that_lacks_changes_has_a_lag() -> None:
    with cluster.SimulatedCluster(seed=3, nodes=3) as simulated:
        simulated.run(simulated.build())
        front_end = remote.server(simulated.master, cluster.FOLDERS, anonymous=True)
        simulated.run(simulated.world.clock.sleep(5))
        assert samples(ask(simulated, front_end), "gantry_replication_lag_records") == {("node2",): 0, ("node3",): 0}
        simulated.kill("node3")
        simulated.run(simulated.done({"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["one"]}))
        lag = samples(ask(simulated, front_end), "gantry_replication_lag_records")
        assert lag["node2",] == 0
        assert lag["node3",] > 0


def test_it_has_the_requests_by_method_and_status(lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths) -> None:
    front_end = server(lab, Master(), folders)
    ask(lab, front_end, "/2/nowhere")
    ask(lab, front_end, method="X-ANY")
    assert samples(ask(lab, front_end), "gantry_http_request_duration_seconds_count") == {
        ("remote", "GET", "404"): 1,
        ("remote", "other", "501"): 1,
    }


@pytest.mark.parametrize("anonymous", [True, False])
def test_health_needs_no_user_and_says_nothing_of_the_cluster(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths, anonymous: bool
) -> None:
    known = Master(("node1", START))
    for path in ("/healthz", "/readyz"):
        answer = ask(lab, server(lab, Ready(known), folders, anonymous=anonymous), path)
        assert (answer.status, answer.body) == (200, b"ok\n")


@pytest.mark.parametrize(
    "master", [Master(error=errors.RemoteError("node1 is down")), SilentMaster()], ids=["ended", "silent"]
)
def test_a_daemon_whose_master_does_not_answer_is_healthy_and_not_ready(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths, master: luxi.Caller
) -> None:
    front_end = server(lab, master, folders)
    assert ask(lab, front_end, "/healthz").status == 200
    answer = ask(lab, front_end, "/readyz")
    assert answer.status == 503
    assert answer.body.startswith(b"the master daemon d")
    assert b"node1" not in answer.body


def test_any_number_of_probes_asks_the_master_once_in_a_second(
    lab: cluster.SimulatedCluster, folders: paths_of_nodes.Paths
) -> None:
    ready = Ready(Master())
    front_end = server(lab, ready, folders)
    for _ in range(50):
        assert ask(lab, front_end, "/readyz").status == 200
    assert ready.questions == 1
    lab.run(lab.master.clock.sleep(2))
    assert ask(lab, front_end, "/readyz").status == 200
    assert ready.questions == 2
