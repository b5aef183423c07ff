"""The id of a request goes from the front end to the job, and to its calls to nodes."""

import base64
import json
from collections.abc import Iterator

import pytest
from tests.doors.talk import ETX, ask

from gantry.daemons import remote
from gantry.doors import http
from gantry.runtime import http_interface, request_ids
from gantry.sim import cluster

USERS = f"{cluster.FOLDERS.lib}/users"
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "on_master": False, "on_nodes": ["node1"]}
Calls = list[tuple[str, str]]


@pytest.fixture
def calls(lab: cluster.SimulatedCluster) -> Iterator[Calls]:
    """The calls to nodes that have an id: their names and the ids."""
    seen: Calls = []

    def note(_source: str, _target: str, request: http_interface.Request) -> None:
        if number := request.headers.get(request_ids.HEADER):
            seen.append((request.path.removeprefix("/"), number))

    before, lab.world.network.on_request = lab.world.network.on_request, note
    yield seen
    lab.world.network.on_request = before


def submit(lab: cluster.SimulatedCluster, op: object, **keys: str) -> int:
    message = json.dumps({"method": "SubmitJob", "args": [[op]], **keys}).encode() + ETX
    answer = ask(lab, message)[0]
    assert answer["success"], answer
    number = answer["result"]
    assert isinstance(number, int)
    assert lab.run(lab.wait(number))[0] == "success"
    return number


def requests_of(lab: cluster.SimulatedCluster) -> dict[int, str]:
    state = lab.daemons["node1"].store.durable
    return {job.id: job.request for job in state.jobs.values()}


def test_the_id_of_an_answer_of_the_remote_api_is_that_of_the_job_and_of_its_calls(
    lab: cluster.SimulatedCluster, calls: Calls
) -> None:
    lab.run(lab.master.disk.write(USERS, b"bob two write\n"))
    server: http.Server = remote.server(lab.master, cluster.FOLDERS)
    headers = {"authorization": "Basic " + base64.b64encode(b"bob:two").decode(), "content-type": "application/json"}
    request = http_interface.Request("PUT", "/2/instances/vm1/startup", b"{}", headers)
    answer = lab.run(server.answer(request))
    number = json.loads(answer.body)
    assert lab.run(lab.wait(number))[0] == "success"
    identity = answer.headers["X-Request-Id"]
    assert requests_of(lab)[number] == identity
    assert ("instance_start", identity) in calls
    assert {each for _, each in calls} == {identity}


def test_the_job_of_a_command_is_known_by_its_number(lab: cluster.SimulatedCluster, calls: Calls) -> None:
    number = submit(lab, DELAY)
    assert requests_of(lab)[number] == ""
    assert calls == [("test_delay", f"job-{number}")]


@pytest.mark.parametrize("text", ["two\nlines", "", "x" * 65, "-x", "a b", "é"])
def test_what_is_not_an_id_is_left_out(lab: cluster.SimulatedCluster, calls: Calls, text: str) -> None:
    number = submit(lab, DELAY, request=text)
    assert requests_of(lab)[number] == ""
    assert calls == [("test_delay", f"job-{number}")]
