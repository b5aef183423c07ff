"""Traces of requests, from a front end to the nodes, at a collector that takes OTLP."""

from collections.abc import Iterator, Sequence

import pytest
from tests import collector
from tests.cluster import lab, test_rapi

CREATE = {
    "__version__": 1,
    "instance_name": "traced.example",
    "disk_template": "file",
    "disks": [{"size": 16}],
    "os_type": "plain",
    "pnode": "node1",
    "nics": [],
    "mode": "create",
}


@pytest.fixture
def traced(own: lab.Lab) -> Iterator[tuple[lab.Lab, collector.Collector]]:
    """A cluster whose daemons all send traces."""
    with collector.listening() as received:
        for file in ("node", "master", "api"):
            own.master.joinpath("etc").mkdir(exist_ok=True)
            own.master.joinpath(f"etc/{file}.toml").write_text(f'traces = "{received.url}"\ndebug = true\n')
        (node,) = own.nodes
        own.stop_master(node)
        node.stop()
        node.start()
        daemon = own.start_master()
        try:
            yield own, received
        finally:
            daemon.terminate()
            daemon.communicate()


def is_complete(spans: Sequence[collector.Span]) -> bool:
    """Return whether three daemons have sent the spans that those which are there lie in."""
    ids = {span.id for span in spans}
    return len({span.service for span in spans}) == 3 and all(span.parent in ids for span in spans if span.parent)


def path(spans: Sequence[collector.Span], last: collector.Span) -> list[str]:
    """Return the spans from the first of a trace to one, as daemon and name."""
    by_id = {span.id: span for span in spans}
    names = [f"{last.service} {last.name}"]
    while last.parent:
        last = by_id[last.parent]
        names.insert(0, f"{last.service} {last.name}")
    return names


def test_a_request_is_one_trace_with_its_id_from_the_front_end_to_the_programs_of_the_node(
    traced: tuple[lab.Lab, collector.Collector],
) -> None:
    cluster, received = traced
    with test_rapi.served(cluster) as remote:
        answer = remote.ask("POST", "/2/instances", CREATE)
        assert answer.status == 200, answer.body
        request = answer.headers["X-Request-Id"]
        with cluster.luxi() as luxi:
            assert luxi.finished(answer.value)[0] == "success"
        trace = request[-36:].replace("-", "")
        lab.wait_until(lambda: is_complete(received.of(trace)), "the spans of three daemons")
    spans = received.of(trace)
    (program,) = (span for span in spans if span.name == "run create")
    assert path(spans, program) == [
        "gantry-rapi remote POST",
        "gantry-masterd job",
        "gantry-masterd OP_INSTANCE_CREATE",
        "gantry-masterd os_add",
        "gantry-noded os_add",
        "gantry-noded run create",
    ]
    (submitted,) = (span for span in spans if span.name == "luxi SubmitJob")
    assert path(spans, submitted) == ["gantry-rapi remote POST", "gantry-masterd luxi SubmitJob"]
    (first,) = (span for span in spans if not span.parent)
    assert first.attributes["http.response.status_code"] == 200
    assert first.attributes["enduser.id"] == "alice"
    assert {span.attributes.get("gantry.request", request) for span in spans} == {request}
    assert request in (cluster.master / "log/node-daemon.log").read_text()
