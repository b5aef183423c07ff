"""Segment ranges over REST: requests, refusals and their messages, on a simulated master."""

import pytest
from tests.doors.neutron.talk import ADMIN, MEMBER, NOWHERE, OTHER, RANGES, READER, Object, Talk

from gantry import errors
from gantry.rpc import luxi

VXLAN: Object = {"name": "r", "network_type": "vxlan"}
VLAN: Object = {"name": "r", "network_type": "vlan", "physical_network": "physnet1"}

BAD = "HTTPBadRequest"
SMALL = "is too small - must be at least '1'."
LARGE = "is too large - must be no larger than '4294967295'."


def _with(base: Object, minimum: object, maximum: object, **more: object) -> Object:
    return {**base, "minimum": minimum, "maximum": maximum, **more}


REFUSED: list[tuple[Object, int, str, str]] = [
    (_with({"network_type": "vlan"}, 1, 2), 400, "BadRequest",
     "Bad network_segment_range request: Network type vlan requires 'physical_network' to be specified while creating "
     "new range."),
    (_with(VLAN, 1, 2, physical_network=None), 400, BAD,
     "Invalid input for physical_network. Reason: 'None' is not a valid string."),
    (_with(VLAN, 1, 2, physical_network="p" * 65), 400, BAD,
     f"Invalid input for physical_network. Reason: '{'p' * 65}' exceeds maximum length of 64."),
    (_with(VXLAN, 0, 10), 400, BAD, f"Invalid input for minimum. Reason: '0' {SMALL}"),
    (_with(VXLAN, -1, 10), 400, BAD, f"Invalid input for minimum. Reason: '-1' {SMALL}"),
    (_with(VXLAN, 1, 2**32), 400, BAD, f"Invalid input for maximum. Reason: '4294967296' {LARGE}"),
    (_with(VXLAN, 1, 2**63), 400, BAD, f"Invalid input for maximum. Reason: '{2**63}' {LARGE}"),
    (_with(VXLAN, 2**64, 2), 400, BAD, f"Invalid input for minimum. Reason: '{2**64}' {LARGE}"),
    (_with(VXLAN, "abc", 2), 400, "InvalidInput", "Invalid input for operation: 'abc' is not an integer."),
    (_with(VXLAN, "1.5", 2), 400, "InvalidInput", "Invalid input for operation: '1.5' is not an integer."),
    (_with(VXLAN, None, 2), 400, "InvalidInput", "Invalid input for operation: 'None' is not an integer."),
    (_with(VXLAN, [], 2), 400, "InvalidInput", "Invalid input for operation: '[]' is not an integer."),
    (_with(VXLAN, "", 2), 400, "InvalidInput", "Invalid input for operation: '' is not an integer."),
    ({**VXLAN, "maximum": 2}, 400, BAD, "Failed to parse request. Required attribute 'minimum' not specified"),
    ({**VXLAN, "minimum": 2}, 400, BAD, "Failed to parse request. Required attribute 'maximum' not specified"),
    (_with({}, 1, 2), 400, "NetworkSegmentRangeNetTypeNotSupported",
     "Network type None does not support network segment ranges."),
    *[
        (_with({"network_type": kind}, 1, 2), 400, BAD,
         f"Invalid input for network_type. Reason: {kind} is not in valid_values.")
        for kind in ("flat", "local", "VLAN", "", None, 5, "nope")
    ],
    (_with(VXLAN, 1, 2, name=None), 400, BAD, "Invalid input for name. Reason: 'None' is not a valid string."),
    (_with(VXLAN, 1, 2, name=5), 400, BAD, "Invalid input for name. Reason: '5' is not a valid string."),
    (_with(VXLAN, 1, 2, name="x" * 256), 400, BAD,
     f"Invalid input for name. Reason: '{'x' * 256}' exceeds maximum length of 255."),
    (_with(VXLAN, 1, 2, shared="perhaps"), 400, "InvalidInput",
     "Invalid input for operation: 'perhaps' cannot be converted to boolean."),
    (_with(VXLAN, 1, 2, project_id="p" * 256, shared=False), 400, BAD,
     f"Invalid input for project_id. Reason: '{'p' * 256}' exceeds maximum length of 255."),
    *[
        (_with(VXLAN, 1, 2, **{name: "x"}), 400, BAD, f"Attribute '{name}' not allowed in POST")
        for name in ("id", "default", "used", "available", "created_at", "tags", "revision_number")
    ],
    (_with(VXLAN, 1, 2, nope=1), 400, BAD, "Unrecognized attribute(s) 'nope'"),
]  # fmt: skip


@pytest.mark.promise("segments-21", "segments-45")
@pytest.mark.parametrize("body", REFUSED, ids=lambda row: row[3][:60])
def test_a_range_that_is_not_valid_is_refused_in_the_recorded_words(
    client: Talk, body: tuple[Object, int, str, str]
) -> None:
    values, *expected = body
    assert client.refused("POST", RANGES, {"network_segment_range": values}) == tuple(expected)


@pytest.mark.parametrize(
    ("base", "minimum_id", "maximum_id"),
    [
        (VLAN, 1, 4094), (VXLAN, 1, 2**24 - 1), ({"network_type": "geneve"}, 1, 2**24 - 1),
        ({"network_type": "gre"}, 1, 2**32 - 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.promise("segments-25", "segments-26", "segments-27", "segments-28", "segments-29", "segments-50")
def test_each_type_has_its_own_limits(clean: Talk, base: Object, minimum_id: int, maximum_id: int) -> None:
    assert clean.add(RANGES, _with(base, minimum_id, maximum_id))["maximum"] == maximum_id
    clean.clear()
    assert clean.add(RANGES, _with(base, maximum_id, maximum_id))["minimum"] == maximum_id
    for minimum, maximum in ((maximum_id, maximum_id + 1), (maximum_id + 1, maximum_id + 1), (2, 1), (0, 1)):
        answer = clean.say("POST", RANGES, {"network_segment_range": _with(base, minimum, maximum)})
        assert answer.fault[0] == 400, (minimum, maximum)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", RANGES, b"", 400, "Unable to find 'network_segment_range' in request body"),
        ("POST", RANGES, b'{"network_segment_range": ', 400, "Body contains invalid data"),
        ("POST", RANGES, b'{"segment_range": {}}', 400, "Unable to find 'network_segment_range' in request body"),
        ("POST", RANGES, b'{"network_segment_ranges": []}', 400,
         "Unable to find 'network_segment_range' in request body"),
        ("POST", RANGES, b"[1]", 400, "Body contains invalid data"),
        ("POST", RANGES, b'{"network_segment_range": {"minimum": 1e400}}', 400, "Body contains invalid data"),
        ("POST", RANGES, b"[" * 100_000, 400, "Body contains invalid data"),
        ("POST", RANGES, b'"\xff"', 400, "Body contains invalid data"),
        ("PUT", RANGES, b"{}", 404, "Network Segment Range None could not be found."),
        ("DELETE", RANGES, b"", 404, "Network Segment Range None could not be found."),
        ("PATCH", RANGES, b"{}", 405, "The server could not comply with the request since it is either malformed or "
         "otherwise incorrect."),
        ("POST", f"{RANGES}/{NOWHERE}", b"{}", 405, "The server could not comply with the request since it is either "
         "malformed or otherwise incorrect."),
        ("GET", f"{RANGES}/{NOWHERE}", b"", 404, f"Network Segment Range {NOWHERE} could not be found."),
        ("GET", f"{RANGES}/33", b"", 404, "Network Segment Range 33 could not be found."),
        ("DELETE", f"{RANGES}/{NOWHERE}", b"", 404, f"Network Segment Range {NOWHERE} could not be found."),
        ("PUT", f"{RANGES}/{NOWHERE}", b'{"network_segment_range": {"name": "x"}}', 404,
         f"Network Segment Range {NOWHERE} could not be found."),
        *[
            (method, f"{RANGES}/{NOWHERE}/{subpath}", b"{}", 404, "The resource could not be found.")
            for method, subpath in (("GET", "nope"), ("PUT", "nope"), ("GET", "tags/x/y"), ("DELETE", "tags/x/y"))
        ],
    ],
)  # fmt: skip
@pytest.mark.promise("segments-57")
def test_invalid_bodies_and_paths_are_refused(
    client: Talk, method: str, path: str, body: bytes, status: int, message: str
) -> None:
    fault = client.raw(method, path, body, headers=_headers("application/json")).fault
    assert (fault[0], fault[2]) == (status, message)


def _headers(kind: str) -> dict[str, str]:
    return {"authorization": "Basic YWRtaW46c2VjcmV0", "content-type": kind}


def test_a_body_of_another_type_is_refused(client: Talk) -> None:
    body = b'{"network_segment_range": {"network_type": "vxlan", "minimum": 1, "maximum": 2}}'
    answer = client.raw("POST", RANGES, body, headers=_headers("text/plain"))
    assert answer.fault == (400, BAD, "Body contains invalid data")


@pytest.mark.promise(
    "segments-1", "segments-3", "segments-13", "segments-40", "segments-42", "segments-52", "segments-53",
    "segments-54", "segments-55",
)  # fmt: skip
def test_a_range_is_created_read_listed_changed_and_removed(clean: Talk) -> None:
    created = clean.add(RANGES, _with(VXLAN, 4000, 4003, description="d"))
    times = {name: created.pop(name) for name in ("created_at", "updated_at")}
    assert times["created_at"] == times["updated_at"]
    key = created["id"]
    assert created == {
        "id": key, "name": "r", "default": False, "shared": True, "project_id": None, "network_type": "vxlan",
        "physical_network": "", "minimum": 4000, "maximum": 4003, "revision_number": 0, "description": "d",
        "available": [4000, 4001, 4002, 4003], "used": {}, "tags": [],
    }  # fmt: skip
    displayed = clean.get(f"{RANGES}/{key}").object("network_segment_range")
    assert displayed == {name: value for name, value in {**created, **times}.items() if name != "project_id"}
    assert displayed in clean.get(RANGES).all("network_segment_ranges")
    assert displayed in clean.get("/v2.0/network-segment-ranges").all("network_segment_ranges")
    assert displayed in clean.get(f"{RANGES}.json").all("network_segment_ranges")
    changed = _put(clean, key, name="new", minimum=3999, maximum=4000)
    assert (changed["name"], changed["available"], changed["revision_number"]) == ("new", [3999, 4000], 1)
    assert _put(clean, key)["revision_number"] == 2
    answer = clean.say("DELETE", f"{RANGES}/{key}")
    assert (answer.status, answer.body) == (204, None)
    assert clean.get(f"{RANGES}/{key}").status == 404


def _put(client: Talk, key: object, **values: object) -> Object:
    answer = client.say("PUT", f"{RANGES}/{key}", {"network_segment_range": values})
    assert answer.status == 200, answer
    return answer.object("network_segment_range")


@pytest.mark.promise("segments-39")
def test_fixed_attributes_of_a_range_cannot_be_changed(clean: Talk) -> None:
    key = clean.add(RANGES, _with(VXLAN, 4000, 4001))["id"]
    for name in ("network_type", "physical_network", "shared", "project_id", "default", "used", "available", "id"):
        refused = clean.refused("PUT", f"{RANGES}/{key}", {"network_segment_range": {name: "x"}})
        assert refused == (400, BAD, f"Cannot update read-only attribute {name}")
    assert clean.refused("PUT", f"{RANGES}/{key}", {"network_segment_range": {"nope": 1}})[2] == (
        "Unrecognized attribute(s) 'nope'"
    )
    assert clean.refused("PUT", f"{RANGES}/{key}", {"network_segment_range": {"minimum": 4002}})[0] == 400


@pytest.mark.promise("segments-43", "segments-44")
def test_the_project_of_a_range(clean: Talk) -> None:
    assert clean.add(RANGES, _with(VXLAN, 1, 1, shared=False))["project_id"] == "default"
    assert clean.add(RANGES, _with(VXLAN, 2, 2, shared=False, project_id="green"))["project_id"] == "green"
    assert clean.add(RANGES, _with(VXLAN, 3, 3, shared=False, tenant_id="blue"))["project_id"] == "blue"
    assert clean.add(RANGES, _with(VXLAN, 4, 4, shared=True, project_id="green"))["project_id"] is None
    assert clean.add(RANGES, _with(VXLAN, 5, 5, shared="False"), who="boss")["project_id"] == "green"
    body = {"network_segment_range": _with(VXLAN, 6, 6, shared=False, project_id="")}
    assert clean.refused("POST", RANGES, body)[0] == 400


def test_numbers_may_be_text_or_booleans(clean: Talk) -> None:
    assert clean.add(RANGES, _with(VXLAN, "41", "42"))["available"] == [41, 42]
    assert clean.add(RANGES, _with(VXLAN, True, 2.5))["available"] == [1, 2]


@pytest.mark.promise("segments-46")
def test_a_physical_network_is_for_a_vlan_alone(clean: Talk) -> None:
    assert clean.add(RANGES, _with(VLAN, 400, 401))["physical_network"] == "physnet1"
    assert clean.add(RANGES, _with(VXLAN, 4000, 4001))["physical_network"] == ""
    assert clean.add(RANGES, _with(VXLAN, 4002, 4003, physical_network="physnet1"))["physical_network"] == ""


@pytest.mark.promise("segments-83")
def test_ranges_that_overlap_are_refused_by_id(clean: Talk) -> None:
    first = clean.add(RANGES, _with(VLAN, 400, 410, shared=False, project_id="green"))["id"]
    message = f"Network segment range overlaps with range(s) with id {first}"
    for minimum, maximum, more in (
        (400, 410, {}), (402, 403, {"shared": False, "project_id": "blue"}), (410, 420, {}), (1, 400, {}),
    ):  # fmt: skip
        body = {"network_segment_range": _with(VLAN, minimum, maximum, **more)}
        assert clean.refused("POST", RANGES, body) == (409, "NetworkSegmentRangeOverlaps", message)
    second = clean.add(RANGES, _with(VLAN, 411, 420))["id"]
    clean.add(RANGES, _with(VLAN, 400, 410, physical_network="physnet2"))
    clean.add(RANGES, _with(VXLAN, 400, 410))
    clean.add(RANGES, _with(VLAN, 105, 106))  # Inside a default range.
    grown = clean.refused("PUT", f"{RANGES}/{first}", {"network_segment_range": {"maximum": 411}})
    assert grown == (409, "NetworkSegmentRangeOverlaps", message.replace(str(first), str(second)))


def test_several_ranges_are_created_together_or_not_at_all(clean: Talk) -> None:
    ranges = [_with(VXLAN, 4100, 4101), _with(VXLAN, 4102, 4103)]
    created = clean.say("POST", RANGES, {"network_segment_ranges": ranges})
    assert (created.status, len(created.all("network_segment_ranges"))) == (201, 2)
    ranges = [_with(VXLAN, 4110, 4111, name="b3"), _with(VXLAN, 4111, 4113)]
    assert clean.refused("POST", RANGES, {"network_segment_ranges": ranges})[:2] == (409, "NetworkSegmentRangeOverlaps")
    assert clean.get(f"{RANGES}?name=b3").all("network_segment_ranges") == []
    many = clean.refused("POST", RANGES, {"network_segment_ranges": [{}] * 4097})
    assert many == (400, BAD, "A request can create at most 4096 objects, this request has 4097")


@pytest.mark.promise("segments-31", "segments-73", "segments-74")
def test_ranges_of_the_configuration_are_listed_and_cannot_be_changed(client: Talk) -> None:
    defaults = [each for each in client.get(RANGES).all("network_segment_ranges") if each["default"]]
    (vlan_range,) = [each for each in defaults if each["network_type"] == "vlan"]
    assert {"name", "project_id", "updated_at"} & vlan_range.keys() == set()
    assert (vlan_range["shared"], vlan_range["description"], vlan_range["physical_network"]) == (True, None, "physnet1")
    key = vlan_range["id"]
    message = f"Network Segment Range {key} is a default segment range which could not be updated or deleted."
    for method, body in (("PUT", {"network_segment_range": {"name": "x"}}), ("DELETE", None)):
        refused = client.refused(method, f"{RANGES}/{key}", body)
        assert refused == (400, "NetworkSegmentRangeDefaultReadOnly", message)


@pytest.mark.promise(
    "segments-41", "segments-48", "segments-49", "segments-58", "segments-59", "segments-78", "segments-79"
)
def test_a_range_lists_its_used_ids_and_must_keep_them(clean: Talk) -> None:
    key = clean.add(RANGES, _with(VLAN, 400, 404, shared=False, project_id="green"))["id"]
    segment = {
        "provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 402,
    }  # fmt: skip
    network = clean.add("/v2.0/networks", {"name": "n", "project_id": "green", **segment})
    displayed = clean.get(f"{RANGES}/{key}").object("network_segment_range")
    assert (displayed["used"], displayed["available"]) == ({"402": "green"}, [400, 401, 403, 404])
    assert _put(clean, key, minimum=395, maximum=410)["used"] == {"402": "green"}
    assert _put(clean, key, minimum=402, maximum=402)["available"] == []
    referenced = (
        409,
        "NetworkSegmentRangeReferencedByProject",
        f"Network Segment Range {key} is referenced by one or more project networks.",
    )
    for bounds in ({"minimum": 450, "maximum": 455}, {"minimum": 403, "maximum": 404}):
        assert clean.refused("PUT", f"{RANGES}/{key}", {"network_segment_range": bounds}) == referenced
    assert clean.refused("DELETE", f"{RANGES}/{key}") == referenced
    assert clean.say("DELETE", f"/v2.0/networks/{network['id']}").status == 204
    assert clean.get(f"{RANGES}/{key}").object("network_segment_range")["available"] == [402]
    assert clean.say("DELETE", f"{RANGES}/{key}").status == 204


@pytest.mark.promise("segments-7", "segments-56", "segments-72", "segments-77")
def test_ranges_are_for_administrators(clean: Talk) -> None:
    key = clean.add(RANGES, _with(VXLAN, 8000, 8001, shared=False, project_id="green"))["id"]
    item, body = f"{RANGES}/{key}", {"network_segment_range": {"name": "x"}}
    for who in (MEMBER, OTHER, READER):
        assert clean.get(RANGES, who=who).body == {"network_segment_ranges": []}
        rule = "rule:create_network_segment_range is disallowed by policy"
        assert clean.refused("POST", RANGES, body, who=who) == (403, "PolicyNotAuthorized", rule)
        assert clean.refused("GET", f"{item}/tags", who=who)[:2] == (403, "PolicyNotAuthorized")
        assert clean.get(item, who=who).status == 404
        for method in ("PUT", "DELETE"):
            assert clean.refused(method, item, body, who=who)[0] == 404
    assert clean.get(item, who=MEMBER).body == {
        "type": "HTTPNotFound", "message": "The resource could not be found.", "detail": "",
    }  # fmt: skip
    assert clean.refused("GET", item, who=OTHER)[1] == "NetworkSegmentRangeNotFound"
    for method in ("GET", "PUT", "DELETE"):
        assert clean.raw(method, item).status == 401


@pytest.mark.promise("segments-56")
@pytest.mark.parametrize(
    ("method", "tag", "body"),
    [("PUT", "", {"tags": ["x"]}), ("DELETE", "", None), ("POST", "", {"tags": ["x"]}), ("PUT", "/x", None)],
)
def test_only_administrators_tag_a_range(clean: Talk, method: str, tag: str, body: Object | None) -> None:
    key = clean.add(RANGES, _with(VXLAN, 8000, 8001, shared=False, project_id="green"))["id"]
    before = clean.get(f"{RANGES}/{key}").body
    for who in (MEMBER, OTHER, READER):
        status, kind, message = clean.refused(method, f"{RANGES}/{key}/tags{tag}", body, who=who)
        reads_first = method == "POST" or tag
        rule = "get_network_segment_range:tags" if reads_first else "update_network_segment_range:tags"
        assert (status, kind) == (403, "PolicyNotAuthorized")
        assert rule in message
    assert clean.get(f"{RANGES}/{key}").body == before


def test_ranges_are_sorted_by_name_and_not_by_description(clean: Talk) -> None:
    for number, name in enumerate(("b", "c", "a")):
        clean.add(RANGES, _with(VXLAN, 8000 + number, 8000 + number, name=name, description=name))
    for direction, expected in (("asc", ["a", "b", "c"]), ("desc", ["c", "b", "a"])):
        query = f"sort_key=name&sort_dir={direction}&name=a&name=b&name=c"
        rows = clean.get(f"{RANGES}?{query}").all("network_segment_ranges")
        assert [row["name"] for row in rows] == expected
    refused = clean.refused("GET", f"{RANGES}?sort_key=description&sort_dir=asc")
    assert refused[0] == 400
    assert refused[2].startswith("['description'] is invalid attribute for sort_keys")


def test_a_refused_change_is_named_even_if_the_range_cannot_be_read(
    clean: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = clean.add(RANGES, _with(VXLAN, 8000, 8001))["id"]
    other = clean.add(RANGES, _with(VXLAN, 8002, 8003))["id"]
    call = luxi.Client.call

    async def without_queries(self: luxi.Client, kind: type[object], method: str, *arguments: object) -> object:
        if method == "Query":
            raise errors.RemoteError("the master daemon does not answer")
        return await call(self, kind, method, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(luxi.Client, "call", without_queries)
        fault = clean.refused("PUT", f"{RANGES}/{key}", {"network_segment_range": {"maximum": 8002}})
    assert fault == (
        409, "NetworkSegmentRangeOverlaps", f"Network segment range overlaps with range(s) with id {other}",
    )  # fmt: skip


def test_tags_come_and_go_and_count_as_changes(clean: Talk) -> None:
    key = clean.add(RANGES, _with(VXLAN, 8000, 8001))["id"]
    tags = f"{RANGES}/{key}/tags"
    assert clean.say("PUT", tags, {"tags": ["red", "blue"]}).body == {"tags": ["red", "blue"]}
    assert clean.get(tags).body == {"tags": ["blue", "red"]}
    assert clean.say("PUT", f"{tags}/green").status == 201
    assert clean.get(f"{tags}/green").status == 204
    assert clean.refused("GET", f"{tags}/nope") == (404, "TagNotFound", "Tag nope could not be found.")
    assert clean.say("POST", tags, {"tags": ["x"]}).body == {"tags": ["x"]}
    displayed = clean.get(f"{RANGES}/{key}").object("network_segment_range")
    assert (displayed["tags"], displayed["revision_number"]) == (["blue", "green", "red", "x"], 3)
    assert [each["id"] for each in clean.get(f"{RANGES}?tags=red,blue").all("network_segment_ranges")] == [key]
    assert key not in [each["id"] for each in clean.get(f"{RANGES}?not-tags=red").all("network_segment_ranges")]
    assert clean.say("DELETE", f"{tags}/green").status == 204
    assert clean.refused("DELETE", f"{tags}/green")[0] == 404
    assert clean.say("DELETE", tags).status == 204
    assert clean.get(tags).body == {"tags": []}
    for body in ({}, {"tags": 5}, {"tags": [5]}, {"tags": ["x" * 256]}):
        assert clean.refused("PUT", tags, body)[0] == 400
    assert clean.refused("PATCH", tags)[0] == 405


def test_a_huge_range_does_not_list_all_its_ids(clean: Talk) -> None:
    created = clean.add(RANGES, _with({"network_type": "geneve"}, 1, 2**24 - 1))
    available = created["available"]
    assert isinstance(available, list)
    assert available == list(range(1, 1001))
    assert (created["available_count"], created["available_ranges"]) == (2**24 - 1, [f"1-{2**24 - 1}"])
    displayed = clean.get(f"{RANGES}/{created['id']}?fields=name&fields=minimum").object("network_segment_range")
    assert displayed == {"name": "", "minimum": 1}


def test_without_the_feature_ranges_do_not_exist(client: Talk) -> None:
    switch = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": False}
    key = client.add(RANGES, _with(VXLAN, 8000, 8001))["id"]
    client.lab.run(client.lab.done(switch))
    hidden = (404, "HTTPNotFound", "The resource could not be found.")
    try:
        assert client.get("/v2.0/extensions/network-segment-range").status == 404
        for query in ("", "?name=unknown", "?limit=1", "?limit=x"):
            assert client.refused("GET", f"{RANGES}{query}", who=ADMIN) == hidden
        for method, body in (("GET", None), ("PUT", {"network_segment_range": {"name": "x"}}), ("DELETE", None)):
            for item in (key, NOWHERE, "nope"):
                assert client.refused(method, f"{RANGES}/{item}", body, who=ADMIN) == hidden
        assert client.refused("PUT", f"{RANGES}/{key}", {}, who=ADMIN) == hidden
        for method, path in (("PUT", ""), ("PATCH", ""), ("GET", f"/{key}/tags"), ("DELETE", f"/{key}/tags/x")):
            assert client.refused(method, f"{RANGES}{path}", who=ADMIN) == hidden
    finally:
        client.lab.run(client.lab.done({**switch, "segment_ranges": True}))
    displayed = client.get(f"{RANGES}/{key}").object("network_segment_range")
    assert (displayed["name"], displayed["revision_number"]) == ("r", 0)
    assert client.say("DELETE", f"{RANGES}/{key}").status == 204
    assert client.get("/v2.0/extensions/network-segment-range").status == 200
