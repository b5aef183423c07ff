"""The master's socket: framing, methods and their arguments, on a simulated node with a complete master."""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import floats
from tests.doors.talk import DELAY, ETX, LIMIT, LONG, METHODS, ask, conversation, failure, request

from gantry import errors
from gantry.doors import luxi
from gantry.doors.luxi import jobs, queries
from gantry.jobs import archiving
from gantry.runtime import bytestream, limits, paths
from gantry.sim import cluster
from gantry.state.store import events


@pytest.mark.parametrize("name", luxi.METHODS)
def test_no_number_of_a_request_can_be_infinite(name: str) -> None:
    assert floats.unbounded(luxi.METHODS[name][0]) == []


@pytest.mark.parametrize(
    "message",
    [
        b"no JSON",
        b"",
        b"[]",
        b"null",
        b'{"method": "QueryClusterInfo"}',
        b'{"args": []}',
        b'{"method": 7, "args": []}',
        b'{"method": "QueryClusterInfo", "args": []',
        b'{"method": "Query\xff", "args": []}',
        b'{"method": "Query", "args": ' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    ],
)
def test_an_invalid_request_is_answered_and_ends_the_connection(lab: cluster.SimulatedCluster, message: bytes) -> None:
    wrong, end = ask(lab, message + ETX + request("QueryClusterInfo"))
    assert wrong["success"] is False
    assert str(wrong["result"]).startswith("Failed to parse request")
    assert end["result"] == "end"


def test_requests_are_answered_in_order_however_they_arrive(lab: cluster.SimulatedCluster) -> None:
    names = ["cluster_name", "master_node", "drain_flag"] * 3
    stream = b"".join(request("QueryConfigValues", [name]) for name in names)
    expected: list[object] = [["lab.example"], ["node1"], [False]] * 3
    assert [answer["result"] for answer in ask(lab, stream)] == expected
    assert [answer["result"] for answer in ask(lab, *(stream[i : i + 1] for i in range(len(stream))))] == expected


def test_other_keys_of_a_request_are_ignored(lab: cluster.SimulatedCluster) -> None:
    (answer,) = ask(lab, b'{"method": "QueryConfigValues", "version": 3010000, "args": [["nothing"]]}' + ETX)
    assert answer == {"success": True, "result": [None]}


@pytest.mark.parametrize("ended", [True, False])
def test_a_message_that_is_too_long_is_refused_and_ends_the_connection(
    lab: cluster.SimulatedCluster, ended: bool
) -> None:
    message = b'{"method": "QueryTags", "args": ["' + b"x" * (3 * LIMIT)
    wrong, end = ask(lab, message + (b'", ""]}' + ETX if ended else b""))
    assert wrong["result"] == ["LuxiError", [f"message is longer than {LIMIT} bytes"]]
    assert end["result"] == "end"


def test_a_client_that_disconnects_in_the_middle_of_a_message_does_no_harm(lab: cluster.SimulatedCluster) -> None:
    async def half() -> None:
        _, writer = await lab.master.network.connect_unix(cluster.FOLDERS.luxi_socket, limit=100)
        writer.write(request("WaitForJobChange", 1, ["status"], None, None, 5) + b'{"method": "Qu')
        await asyncio.sleep(0)
        writer.close()

    for _ in range(3):
        lab.run(half())
    assert ask(lab, request("QueryConfigValues", ["cluster_name"]))[0]["result"] == ["lab.example"]


def test_an_answer_has_a_notice_if_clients_have_to_know_something_beside_it(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = lab.daemons[lab.leader].candidates
    monkeypatch.setattr(candidates, "notice", lambda: "the newest changes are only on node1")
    (answer,) = lab.run(conversation(lab, request("QueryConfigValues", ["cluster_name"])))
    assert answer == {"success": True, "result": ["lab.example"], "notice": "the newest changes are only on node1"}


@pytest.mark.parametrize(("age", "valid"), [(-2, False), (-1.5, False), (-1, True), (0, True)])
def test_minus_1_is_the_lowest_age_of_jobs_to_archive(lab: cluster.SimulatedCluster, age: float, valid: bool) -> None:
    (answer,) = ask(lab, request("AutoArchiveJobs", age, 10))
    assert answer["success"] is valid


async def _job(lab: cluster.SimulatedCluster, op: cluster.Opcode = DELAY) -> int:
    number = await lab.submit(op)
    if op is DELAY:
        await lab.wait(number)
    return number


RESULTS: dict[str, object] = {
    "QueryOwnAccess": dict[str, object],
    "ProveToken": None,
    "CheckConsole": None,
    "SubmitManyJobs": list[tuple[bool, int]],
    "SubmitJob": int,
    "SubmitJobToDrainedQueue": int,
    "RunJob": tuple[int, str, list[object]],
    "WaitForJobChange": tuple[tuple[str], list[object]],
    "CancelJob": tuple[bool, str],
    "ArchiveJob": bool,
    "AutoArchiveJobs": tuple[int, int],
    "ChangeJobPriority": tuple[bool, str],
    "SetDrainFlag": bool,
    "SetWatcherPause": float | None,
    "Query": dict[str, list[object]],
    "QueryFields": dict[str, list[dict[str, str]]],
    "QueryClusterInfo": dict[str, object],
    "QueryNetworkHistory": dict[str, object],
    "QueryAddress": dict[str, object],
    "QueryHistory": dict[str, object],
    "QueryAudit": dict[str, object],
    "WaitForEvents": dict[str, object],
    "ExportConfig": dict[str, object],
    "UseInvitation": dict[str, object],
    "ProveInvitation": dict[str, object],
    "ReadWebhooks": dict[str, object],
    "ReadWebhookSecret": str,
    "StoreWebhookPositions": None,
}


def test_every_method_is_in_the_table() -> None:
    assert set(METHODS) == set(luxi.METHODS)


def test_the_watchers_pause_is_answered_with_its_end_and_is_in_the_configuration(lab: cluster.SimulatedCluster) -> None:
    end = lab.world.clock.now() + 3600
    for until in (end, None):
        assert lab.run(lab.luxi("SetWatcherPause", until)) == until
        assert lab.run(lab.luxi("QueryConfigValues", ["watcher_pause"])) == [until]


async def _history(lab: cluster.SimulatedCluster, *arguments: object) -> list[tuple[int, float, set[tuple[str, str]]]]:
    """Return serial, time, and kinds and names of the changed objects, of the events that a query returns."""
    answer = msgspec.convert(await lab.luxi("QueryHistory", *arguments, 1000), dict[str, object])
    matching_events = msgspec.convert(answer["events"], list[events.Event])
    return [(event.serial, event.time, {(each.kind, each.name) for each in event.changes}) for event in matching_events]


def test_the_history_has_only_what_its_filters_name(lab: cluster.SimulatedCluster) -> None:
    lab.run(lab.done({"OP_ID": "OP_NETWORK_ADD", "network_name": "net2", "network": "198.51.100.0/24"}))
    lab.run(lab.done({"OP_ID": "OP_TAGS_SET", "kind": "network", "name": "net2", "tags": ["a"]}))
    whole = lab.run(_history(lab, None, None, None, None))
    of_networks = [event for event in whole if {kind for kind, _ in event[2]} & {"network"}]
    of_net2 = [event for event in whole if ("network", "net2") in event[2]]
    assert len(whole) > len(of_networks) > len(of_net2) == 2
    assert lab.run(_history(lab, "network", None, None, None)) == of_networks
    assert lab.run(_history(lab, "network", "net2", None, None)) == of_net2
    assert lab.run(_history(lab, None, "net2", None, None)) == of_net2
    assert lab.run(_history(lab, "instance", "net2", None, None)) == []
    serial, moment = of_net2[1][0], of_net2[1][1]
    assert lab.run(_history(lab, "network", "net2", serial, None)) == of_net2[1:]
    assert lab.run(_history(lab, "network", "net2", None, moment)) == of_net2[1:]
    lab.run(lab.done({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "net2"}))


def test_the_history_is_of_kinds_that_there_are(lab: cluster.SimulatedCluster) -> None:
    name, text = failure(lab, "QueryHistory", "disk", None, None, None, 10)
    assert (name, text) == ("OpPrereqError", f"no such kind of object: disk; the kinds are {', '.join(events.KINDS)}")


def test_a_wait_for_a_job_that_does_not_change_ends_with_a_word_of_its_own(lab: cluster.SimulatedCluster) -> None:
    number = lab.run(_job(lab, LONG))
    lab.run(lab.world.clock.sleep(1))
    begin = lab.world.clock.monotonic()
    (answer,) = ask(lab, request("WaitForJobChange", number, ["status"], ["running"], 1000, 3))
    assert (answer["success"], answer["result"]) == (True, "nochange")
    assert lab.world.clock.monotonic() - begin >= 3
    lab.run(lab.luxi("CancelJob", number, True))
    lab.run(lab.wait(number))


def test_a_bug_in_a_method_is_an_answer_and_the_connection_goes_on(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(services: object, *arguments: object) -> object:
        raise ZeroDivisionError("by a bug")

    monkeypatch.setitem(luxi.METHODS, "QueryTags", (luxi.METHODS["QueryTags"][0], broken))
    answers = ask(lab, request("QueryTags", "cluster", "") + request("QueryConfigValues", ["cluster_name"]))
    text = "method QueryTags failed; see the master's log"
    assert answers == [
        {"success": False, "result": ["ProgrammerError", [text]]},
        {"success": True, "result": ["lab.example"]},
    ]
    assert "method QueryTags failed" in caplog.messages
    assert "ZeroDivisionError: by a bug" in caplog.text


def _second_door(lab: cluster.SimulatedCluster) -> luxi.Door:
    """Return a door of the lab's master at a socket of its own."""
    folders = paths.Paths.below("/second")
    lab.run(lab.master.disk.make_directory(folders.run))
    return luxi.Door(lab.master, dataclasses.replace(lab.daemons[lab.leader].door._services, folders=folders))


async def _conversation_with(lab: cluster.SimulatedCluster, door: luxi.Door, message: bytes) -> list[dict[str, object]]:
    reader, writer = await lab.master.network.connect_unix(door._path, limit=LIMIT)
    writer.write(message)
    answers = (await reader.read()).split(ETX)[:-1]
    writer.close()
    return [json.loads(answer) for answer in answers]


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_change_that_waits_for_candidates_ends_with_its_door(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    outcomes: list[str] = []

    async def endless(*arguments: object) -> object:
        outcomes.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            outcomes.append("canceled")
            raise
        return None

    if is_given_up:
        monkeypatch.setattr(jobs, "give_up", endless)
    else:
        monkeypatch.setitem(luxi.METHODS, "SubmitJob", (luxi.METHODS["SubmitJob"][0], endless))
    stalled = lab.daemons[lab.leader].candidates.stalled

    door = _second_door(lab)

    async def scenario() -> list[dict[str, object]]:
        await door.open()
        if is_given_up:
            stalled.set()
        asking = asyncio.ensure_future(_conversation_with(lab, door, request("SubmitJob", [DELAY])))
        await lab.world.clock.sleep(0.01)
        stalled.set()
        await lab.world.clock.sleep(0.01)
        assert outcomes == ["begun"]
        async with asyncio.timeout(10):
            await door.close()
            return await asking

    try:
        answers = lab.run(scenario())
    finally:
        stalled.clear()
    assert outcomes == ["begun", "canceled"]
    # Without a decision there is no answer; a change that may still be made is reported as such.
    assert [answer["success"] for answer in answers] == ([] if is_given_up else [False])


def test_a_message_that_the_server_refuses_is_answered_with_the_time_after_which_to_send_it_again(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusingReader:
        """A stream whose server has no memory for a message."""

        async def readuntil(self, separator: bytes) -> bytes:
            raise bytestream.RefusedError("too many bytes")

    serve = lab.master.network.serve_unix

    async def serve_refusing(path: str, handler: Callable[..., Awaitable[None]], **options: object) -> object:
        return await serve(path, lambda _, writer: handler(RefusingReader(), writer), **options)  # type: ignore[arg-type]

    door = _second_door(lab)

    async def scenario() -> list[dict[str, object]]:
        await door.open()
        answers = await _conversation_with(lab, door, request("QueryTags", "cluster", ""))
        await door.close()
        return answers

    monkeypatch.setattr(lab.master.network, "serve_unix", serve_refusing)
    text = "the master daemon refuses the message: too many bytes"
    expected_error = errors.BusyError(text).luxi_pair()
    (answer,) = lab.run(scenario())
    assert answer == {
        "success": False,
        "result": [expected_error[0], list(expected_error[1])],
        "retry_after": limits.RETRY_SECONDS,
    }


async def _jobs_and_serial(lab: cluster.SimulatedCluster) -> object:
    """Return all jobs and the serial number of the newest change."""
    newest = msgspec.convert(await lab.luxi("WaitForEvents", 0, 1, 0), dict[str, object])
    return await lab.luxi("QueryJobs", None, ["id", "status"]), newest["serial"]


@pytest.mark.promise("cluster-14")
def test_methods_are_of_two_classes_and_queries_change_nothing_and_wait_for_nothing(
    lab: cluster.SimulatedCluster,
) -> None:
    assert not jobs.METHODS.keys() & queries.METHODS.keys()
    number = lab.run(_job(lab))
    lab.run(lab.luxi("SetDrainFlag", True))
    try:
        before = lab.run(_jobs_and_serial(lab))
        for method in queries.METHODS:
            arguments = json.loads(json.dumps(METHODS[method]).replace('"job"', str(number)))
            lab.run(lab.luxi(method, *arguments))
        assert lab.run(_jobs_and_serial(lab)) == before
        for method in ("SubmitJob", "SubmitManyJobs"):
            assert failure(lab, method, *METHODS[method])[0] == "JobQueueDrainError"
    finally:
        lab.run(lab.luxi("SetDrainFlag", False))


@pytest.mark.promise("cluster-64")
@pytest.mark.parametrize("method", [name for name in METHODS if name != "OpenConsole"])  # it needs a guest that runs
def test_every_method_answers_in_the_shape_that_clients_know(lab: cluster.SimulatedCluster, method: str) -> None:
    number = lab.run(_job(lab))
    arguments = json.loads(json.dumps(METHODS[method]).replace('"job"', str(number)))
    (answer,) = ask(lab, request(method, *arguments))
    assert answer["success"] is True, answer
    msgspec.convert(answer["result"], RESULTS.get(method, list[object]))


@pytest.mark.promise("cluster-17")
@pytest.mark.parametrize("method", METHODS)
def test_too_many_arguments_or_wrong_types_are_refused(lab: cluster.SimulatedCluster, method: str) -> None:
    other: object = 0 if method in ("ReadOpcode", "QueryAudit") else {}
    wrong: list[list[object]] = [[*METHODS[method], {}, {}], [other] * len(METHODS[method]) or [0]]
    for arguments in wrong:
        name, message = failure(lab, method, *arguments)
        assert name == "OpPrereqError"
        assert f"arguments of {method} are not valid" in message
    (answer,) = ask(lab, json.dumps({"method": method, "args": {"a": 1}}).encode() + ETX)
    assert "are not valid" in str(answer["result"])


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(sorted(METHODS)),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=6,
    ),
)
def test_no_arguments_cause_an_internal_error(lab: cluster.SimulatedCluster, method: str, arguments: object) -> None:
    (answer,) = ask(lab, json.dumps({"method": method, "args": arguments}).encode() + ETX)
    assert "ProgrammerError" not in str(answer["result"])
    if method == "SetDrainFlag":
        lab.run(lab.luxi("SetDrainFlag", False))


@pytest.mark.parametrize("arguments", [[], [True], ["x"], [1, 2], [1, True, 3]])
def test_a_cancelation_requires_one_job_number(lab: cluster.SimulatedCluster, arguments: list[object]) -> None:
    assert "arguments of CancelJob are not valid" in failure(lab, "CancelJob", *arguments)[1]


def test_a_running_job_is_killed_on_request(lab: cluster.SimulatedCluster) -> None:
    number = lab.run(_job(lab, LONG))
    lab.run(lab.world.clock.sleep(1))
    assert lab.run(lab.luxi("CancelJob", number, True)) == [True, f"Job {number} will be killed"]
    assert lab.run(lab.wait(number))[0] == "canceled"


@pytest.mark.parametrize("kill", [[], [False]])
def test_a_running_job_is_not_canceled(lab: cluster.SimulatedCluster, kill: list[object]) -> None:
    number = lab.run(_job(lab, LONG))
    lab.run(lab.world.clock.sleep(1))
    done, message = msgspec.convert(lab.run(lab.luxi("CancelJob", number, *kill)), tuple[bool, str])
    assert not done
    assert "no longer waiting" in message
    assert lab.run(lab.wait(number))[0] == "success"


ALLOW = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "allowed": [["add", "images", "/srv/cd"]]}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("SubmitJob", [[ALLOW]]),
        ("SubmitJobToDrainedQueue", [[{"OP_ID": "OP_TEST_DELAY", "duration": 0}, ALLOW]]),
        ("RunJob", [[ALLOW], 1]),
    ],
)
@pytest.mark.parametrize("is_remote", [True, False])
def test_only_root_changes_allow_lists_and_no_other_door_does_it_for_others(
    lab: cluster.SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    arguments: list[object],
    is_remote: bool,
) -> None:
    if not is_remote:
        monkeypatch.setattr(lab.master.network, "is_privileged", lambda writer: False)
    message = json.dumps({"method": method, "args": arguments, "remote": is_remote}).encode() + ETX
    (answer,) = ask(lab, message)
    assert answer["success"] is False
    assert answer["result"] == [
        "OpPrereqError",
        [
            "only root may change the allow-lists, with a command on the master; run gnt-cluster modify there as root",
            "forbidden",
        ],
    ]
    many = json.dumps({"method": "SubmitManyJobs", "args": [[[ALLOW]]], "remote": is_remote}).encode() + ETX
    assert "only root may change" in str(ask(lab, many)[0]["result"])
    assert lab.daemons[lab.leader].store.snapshot.the_cluster.allowed == {}


ADD = {"OP_ID": "OP_NODE_ADD", "node_name": "node9", "primary_ip": "203.0.113.9", "join_token": "x"}
INVITE = {"OP_ID": "OP_NODE_INVITE", "node_name": "node9", "secret_hash": "0" * 64}


@pytest.mark.parametrize("op", [ADD, INVITE])
@pytest.mark.parametrize("is_remote", [True, False])
def test_only_root_adds_a_node(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch, op: dict[str, object], is_remote: bool
) -> None:
    if not is_remote:
        monkeypatch.setattr(lab.master.network, "is_privileged", lambda writer: False)
    (answer,) = ask(lab, json.dumps({"method": "SubmitJob", "args": [[op]], "remote": is_remote}).encode() + ETX)
    sentence = "only root may change which machines become nodes, with a command on the master"
    assert answer["success"] is False
    assert answer["result"] == ["OpPrereqError", [f"{sentence}; run gnt-node add there as root", "forbidden"]]


def test_root_changes_allow_lists_and_everybody_sees_them(lab: cluster.SimulatedCluster) -> None:
    lab.run(lab.done(ALLOW))
    assert "/srv/cd" in str(lab.run(lab.luxi("QueryClusterInfo")))
    lab.run(lab.done({**ALLOW, "allowed": [["add", "images", "default"]]}))
    assert lab.daemons[lab.leader].store.snapshot.the_cluster.allowed == {}


@pytest.mark.promise("cluster-18", "cluster-19")
@pytest.mark.parametrize(
    ("method", "arguments", "name"),
    [
        ("Nothing", [], "LuxiError"),
        ("SubmitJob", [[]], "OpPrereqError"),
        ("WaitForJobChange", [987654, ["status"], None, None, 1], "JobLost"),
    ],
)
def test_a_failure_is_a_list_of_two_its_class_and_its_arguments(
    lab: cluster.SimulatedCluster, method: str, arguments: list[object], name: str
) -> None:
    (answer,) = ask(lab, request(method, *arguments))
    assert {key: type(value) for key, value in answer.items()} == {"success": bool, "result": list}
    assert answer["success"] is False
    assert msgspec.convert(answer["result"], tuple[str, list[object]])[0] == name


def test_unknown_methods_and_jobs_have_their_errors(lab: cluster.SimulatedCluster) -> None:
    assert failure(lab, "NoSuchMethod") == ("LuxiError", "no such method: NoSuchMethod")
    for method in ("CancelJob", "ArchiveJob"):
        assert failure(lab, method, 987654)[0] == "JobLost"
    assert failure(lab, "WaitForJobChange", 987654, ["status"], None, None, 1)[0] == "JobLost"
    assert failure(lab, "WaitForJobChange", 1, ["colour"], None, None, 1)[0] == "OpPrereqError"


@pytest.mark.parametrize("timeout", ["nan", -1, "soon"])
def test_a_wait_requires_a_valid_timeout(lab: cluster.SimulatedCluster, timeout: object) -> None:
    name, message = failure(lab, "WaitForJobChange", 1, ["status"], None, None, timeout)
    assert (name, "are not valid" in message) == ("OpPrereqError", True)


def test_unknown_jobs_are_rows_of_nulls(lab: cluster.SimulatedCluster) -> None:
    number = lab.run(_job(lab))
    rows = lab.run(lab.luxi("QueryJobs", [987654, number], ["status", "id", "summary"]))
    assert rows == [[None, 987654, None], ["success", number, "TEST_DELAY(0.0)"]]


@pytest.mark.promise("cluster-21")
def test_an_archived_job_is_found_by_its_number_and_listed_on_request(lab: cluster.SimulatedCluster) -> None:
    number = lab.run(_job(lab))
    assert lab.run(lab.luxi("ArchiveJob", number)) is True
    lab.run(lab.world.clock.sleep(5))
    assert lab.run(lab.luxi("QueryJobs", [number], ["id", "status"])) == [[number, "success"]]
    listed = msgspec.convert(lab.run(lab.luxi("QueryJobs", None, ["id"])), list[list[int]])
    assert [number] not in listed
    rows = lab.run(lab.luxi("QueryJobs", None, ["id", "archived"]))
    assert [number, True] in msgspec.convert(rows, list[list[object]])


def test_of_many_jobs_the_invalid_keep_their_positions(lab: cluster.SimulatedCluster) -> None:
    def after(back: int) -> dict[str, object]:
        return {**DELAY, "depends": [[-back, ["success"]]]}

    many = [[DELAY], [{**DELAY, "colour": 1}], [after(1)], [], [after(4)]]
    answers = msgspec.convert(lab.run(lab.luxi("SubmitManyJobs", many)), list[tuple[bool, int | str]])
    assert [good for good, _ in answers] == [True, False, False, False, True]
    assert "colour" in str(answers[1][1])
    assert answers[3][1] == "A job needs at least one opcode"
    first, last = answers[0][1], answers[4][1]
    (ops,) = msgspec.convert(lab.run(lab.luxi("QueryJobs", [last], ["ops"])), list[list[list[dict[str, object]]]])
    assert ops[0][0]["depends"] == [[first, ["success"]]]


def test_a_drained_queue_accepts_only_forced_submissions(lab: cluster.SimulatedCluster) -> None:
    lab.run(lab.luxi("SetDrainFlag", True))
    try:
        assert failure(lab, "SubmitJob", [DELAY])[0] == "JobQueueDrainError"
        assert isinstance(lab.run(lab.luxi("SubmitJobToDrainedQueue", [DELAY])), int)
        assert lab.run(lab.luxi("QueryConfigValues", ["drain_flag"])) == [True]
    finally:
        lab.run(lab.luxi("SetDrainFlag", False))


def test_a_query_returns_the_definitions_of_its_fields(lab: cluster.SimulatedCluster) -> None:
    answer = lab.run(lab.luxi("Query", "instance", ["name", "hv/nothing", "admin_up"], ["=", "name", "vm1"]))
    assert answer == {
        "fields": [
            {"name": "name", "title": "Instance", "kind": "text", "doc": "Name"},
            {
                "name": "hv/nothing",
                "title": "hv/nothing",
                "kind": "unknown",
                "doc": "list-fields shows the known fields",
            },
            {"name": "admin_up", "title": "Autostart", "kind": "bool", "doc": "Whether the admin state is up"},
        ],
        "data": [[[0, "vm1"], [1, None], [0, False]]],
    }


CLUSTER_KEYS = """
software_version protocol_version config_version os_api_version export_version vcs_version architecture
name master uuid ctime mtime tags default_hypervisor enabled_hypervisors hvparams os_hvp
beparams osparams nicparams ndparams diskparams ipolicy candidate_pool_size max_running_jobs max_tracked_jobs
mac_prefix master_netdev master_netmask use_external_mip_script primary_ip_version instance_communication_network
volume_group_name drbd_usermode_helper file_storage_dir shared_file_storage_dir gluster_storage_dir
enabled_disk_templates reserved_lvs prealloc_wipe_disks install_image zeroing_image compression_tools
maintain_node_health uid_pool default_iallocator default_iallocator_params hidden_os blacklisted_os
enabled_user_shutdown enabled_data_collectors data_collector_interval modify_ssh_setup ssh_key_type ssh_key_bits
"""


def test_the_cluster_has_every_key_that_clients_read(lab: cluster.SimulatedCluster) -> None:
    info = lab.run(lab.luxi("QueryClusterInfo"))
    assert isinstance(info, dict)
    assert set(CLUSTER_KEYS.split()) <= set(info)
    assert (info["primary_ip_version"], info["volume_group_name"], info["default_iallocator"]) == (4, None, "")
    policy = msgspec.convert(info["ipolicy"], dict[str, object])
    assert set(policy) == {"minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio"}


COMMON_FIELDS = "ctime mtime uuid serial_no tags "
FIELDS = {
    "node": """
        name drained master_candidate master_capable offline vm_capable pip sip master group group.uuid ndparams
        custom_ndparams ndp/oob_program ndp/spindle_count ndp/exclusive_storage ndp/ovs ndp/ovs_name ndp/ovs_link
        ndp/ssh_port ndp/cpu_speed pinst_cnt sinst_cnt pinst_list sinst_list role powered hv_state disk_state bootid
        cnodes cnos csockets ctotal dfree dtotal spfree sptotal mfree mnode mtotal
    """,
    "instance": """
        name admin_state admin_state_source admin_up disks_active forthcoming hypervisor network_port os pnode
        pnode.group pnode.group.uuid snodes snodes.group snodes.group.uuid hvparams beparams osparams custom_hvparams
        custom_beparams custom_nicparams custom_osparams disk_template disk_usage be/maxmem be/minmem be/memory be/vcpus
        be/auto_balance be/always_failover be/spindle_use hv/migration_mode disk.count disk.sizes disk.spindles
        disk.names disk.uuids disk.size/0 disk.spindles/15 disk.name/0 disk.uuid/15 nic.count nic.macs nic.ips nic.names
        nic.uuids nic.modes nic.links nic.vlans nic.bridges nic.networks nic.networks.names nic.mac/0 nic.ip/7
        nic.name/0 nic.uuid/0 nic.mode/0 nic.link/0 nic.vlan/0 nic.bridge/0 nic.network/0 nic.network.name/7 status
        oper_state oper_ram oper_vcpus console vcpus sda_size sdb_size ip mac bridge nic_mode nic_link nic_network
    """,
    "group": """
        name alloc_policy ipolicy custom_ipolicy diskparams custom_diskparams ndparams custom_ndparams
        ndp/spindle_count node_cnt node_list pinst_cnt pinst_list
    """,
    "network": """
        name network gateway network6 gateway6 mac_prefix free_count reserved_count map group_list group_cnt inst_list
        inst_cnt external_reservations
    """,
}


@pytest.mark.parametrize("what", FIELDS)
def test_objects_have_every_field_that_clients_ask_for(lab: cluster.SimulatedCluster, what: str) -> None:
    names = (COMMON_FIELDS + FIELDS[what]).split()
    answer = msgspec.convert(lab.run(lab.luxi("QueryFields", what, names)), dict[str, list[dict[str, str]]])
    assert [field["name"] for field in answer["fields"] if field["kind"] == "unknown"] == []
    rows = msgspec.convert(lab.run(lab.luxi("Query", what, names, None)), dict[str, list[object]])["data"]
    assert rows


DESCRIPTION = """
    name config_state run_state pnode pnode_group_uuid pnode_group_name snodes snodes_group_uuids snodes_group_names os
    nics disk_template disks hypervisor network_port hv_instance hv_actual be_instance be_actual os_instance os_actual
    serial_no mtime ctime uuid
"""


def test_an_instance_is_described_with_every_key_that_clients_read(lab: cluster.SimulatedCluster) -> None:
    op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": ["vm1"], "static": True}
    _, results = lab.run(lab.wait(lab.run(lab.submit(op))))
    description = msgspec.convert(results[0], dict[str, dict[str, object]])["vm1"]
    assert set(DESCRIPTION.split()) <= set(description)


def test_there_are_no_exports_on_nodes_that_exist(lab: cluster.SimulatedCluster) -> None:
    assert lab.run(lab.luxi("QueryExports", [], False)) == []
    assert lab.run(lab.luxi("QueryExports", ["node1"], False)) == []
    assert "node9" in failure(lab, "QueryExports", ["node9"], False)[1]
    assert failure(lab, "QueryExports", [], True) == ("OpPrereqError", "Sync queries are not allowed")


def test_the_older_queries_take_no_locks_and_return_nulls(lab: cluster.SimulatedCluster) -> None:
    for method in ("QueryNodes", "QueryInstances", "QueryGroups", "QueryNetworks"):
        assert failure(lab, method, [], ["name"], True) == ("OpPrereqError", "Sync queries are not allowed")
        assert "nobody" in failure(lab, method, ["nobody"], ["name"], False)[1]
        assert "colour" in failure(lab, method, [], ["colour"], False)[1]
    assert lab.run(lab.luxi("QueryInstances", [], ["name", "nic.mac/0"], False)) == [["vm1", None]]


@pytest.mark.parametrize("kind", ["node", "instance", "network", "nodegroup"])
def test_tags_require_an_object_that_exists(lab: cluster.SimulatedCluster, kind: str) -> None:
    names = {"node": "node1", "instance": "vm1", "network": "net1", "nodegroup": "default"}
    assert lab.run(lab.luxi("QueryTags", kind, names[kind])) == []
    with pytest.raises(errors.NotFoundError):
        lab.run(lab.luxi("QueryTags", kind, "nobody"))
    with pytest.raises(errors.InvalidError, match="no such kind of object with tags: disk"):
        lab.run(lab.luxi("QueryTags", "disk", "x"))


def test_a_job_is_run_and_its_result_returned_in_one_request(lab: cluster.SimulatedCluster) -> None:
    number, status, results = lab.run(_ran(lab, DELAY, DELAY))
    assert (status, len(results)) == ("success", 2)
    assert lab.run(lab.luxi("QueryJobs", [number], ["status"])) == [["success"]]
    _, status, results = lab.run(_ran(lab, {"OP_ID": "OP_NETWORK_REMOVE", "network_name": "nowhere"}))
    assert status == "error"
    assert msgspec.convert(results[0], tuple[str, list[str]])[1][1] == "unknown_entity"
    number, status, _ = lab.run(_ran(lab, LONG, seconds=1))
    assert status == "running"
    lab.run(lab.wait(number))


async def _ran(
    lab: cluster.SimulatedCluster, *ops: cluster.Opcode, seconds: float = 30
) -> tuple[int, str, list[object]]:
    return msgspec.convert(await lab.luxi("RunJob", list(ops), seconds), tuple[int, str, list[object]])


def test_a_job_is_run_only_if_an_object_meets_each_of_its_conditions(lab: cluster.SimulatedCluster) -> None:
    add = {"OP_ID": "OP_NETWORK_ADD", "network_name": "guarded"}
    met, unmet = ["node", ["?", "name"]], ["network", ["=", "uuid", "nowhere"]]
    before = lab.run(lab.luxi("QueryJobs", None, ["id"]))
    assert lab.run(lab.luxi("RunJob", [add], 30, [met, unmet])) == [0, "refused", [1]]
    assert lab.run(lab.luxi("QueryJobs", None, ["id"])) == before
    _, status, results = msgspec.convert(lab.run(lab.luxi("RunJob", [add], 30, [met])), tuple[int, str, list[object]])
    assert (status, len(results)) == ("success", 1)


def test_a_job_is_followed_by_a_query_if_it_has_succeeded(lab: cluster.SimulatedCluster) -> None:
    add = {"OP_ID": "OP_NETWORK_ADD", "network_name": "asked-for"}
    query = ["network", ["name"], ["=", "name", "asked-for"]]
    answer = lab.run(lab.luxi("RunJob", [add], 30, [], query))
    assert msgspec.convert(answer, list[object])[3] == [[[0, "asked-for"]]]
    failed = lab.run(lab.luxi("RunJob", [add], 30, [], query))
    assert len(msgspec.convert(failed, list[object])) == 3


def test_jobs_that_were_run_do_not_fill_the_queue(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "RECENT", 3)
    monkeypatch.setattr(archiving, "_BATCH", 4)

    async def many() -> list[int]:
        return [(await _ran(lab, DELAY))[0] for _ in range(12)]

    numbers = lab.run(many())
    lab.run(lab.world.clock.sleep(1))  # The task that archives runs after the answer to a job.
    kept = msgspec.convert(lab.run(lab.luxi("QueryJobs", None, ["id"])), list[tuple[int]])
    assert {number for (number,) in kept} >= set(numbers[-3:])
    assert len({number for (number,) in kept} & set(numbers)) < 3 + 4
    assert lab.run(lab.luxi("QueryJobs", [numbers[0]], ["status"])) == [["success"]]


@pytest.mark.parametrize(
    ("is_root", "is_administrator", "is_allowed"),
    [(True, False, True), (False, True, True), (False, False, False), (False, None, True)],
)
def test_only_root_and_administrators_change_and_all_who_connect_read(
    lab: cluster.SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    is_root: bool,
    is_administrator: bool | None,
    is_allowed: bool,
) -> None:
    groups: list[str] = []

    def is_member(writer: object, group: str) -> bool | None:
        groups.append(group)
        return is_administrator

    monkeypatch.setattr(lab.master.network, "is_privileged", lambda writer: is_root)
    monkeypatch.setattr(lab.master.network, "is_member", is_member)
    (info,) = ask(lab, json.dumps({"method": "QueryClusterInfo", "args": []}).encode() + ETX)
    assert info["success"] is True
    (change,) = ask(lab, json.dumps({"method": "SetDrainFlag", "args": [False]}).encode() + ETX)
    assert change["success"] is is_allowed
    assert set(groups) <= {"gantry-admin"}
    if not is_allowed:
        assert "only root and the group gantry-admin may use it" in str(change["result"])


def test_a_reader_may_use_exactly_the_methods_that_change_nothing(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.master.network, "is_privileged", lambda writer: False)
    monkeypatch.setattr(lab.master.network, "is_member", lambda writer, group: False)
    refused = set()
    for method in luxi.METHODS:
        # Arguments that no method accepts: who may use the method is decided first.
        (answer,) = ask(lab, json.dumps({"method": method, "args": {}}).encode() + ETX)
        if "only root and the group" in str(answer["result"]):
            refused.add(method)
    assert refused == {
        "ArchiveJob",
        "AutoArchiveJobs",
        "CancelJob",
        "ChangeJobPriority",
        "ChangePackages",
        "OpenConsole",
        "ReadWebhookSecret",
        "ReadWebhooks",
        "RunJob",
        "SetDrainFlag",
        "SetWatcherPause",
        "StoreWebhookPositions",
        "SubmitJob",
        "SubmitJobToDrainedQueue",
        "SubmitManyJobs",
        "UseInvitation",
    }
