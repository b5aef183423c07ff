"""Each attribute of a segment range as its document has it, through the Neutron API of real daemons.

The document says of each attribute whether a request may set it when it creates a range and later, its default, its
limits, and whether lists are filtered and sorted by it.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from tests.cluster import lab, test_neutron

# The gate has the API of segment ranges without daemons (tests/doors/neutron).
pytestmark = pytest.mark.slow

RANGES = test_neutron.RANGES
NAME = "network_segment_range"
ADMIN, GREEN, BLUE = "admin", "gina", "bert"
USERS = """
admin secret write
gina secret project=green
bert secret project=blue
"""
FILE = """
[ml2_type_gre]
tunnel_id_ranges = 1:20
"""
Range = dict[str, object]


class Door:
    """The Neutron API, with users of two projects."""

    def __init__(self, cluster: lab.Lab) -> None:
        self.api = test_neutron.Api(cluster, auth="http_basic")
        self._created: list[object] = []

    def status(self, method: str, path: str, values: Mapping[str, object] | None = None, *, who: str = ADMIN) -> int:
        return self.api.say(method, path, None if values is None else {NAME: values}, who=who)[0]

    def refusal(self, method: str, path: str, values: Mapping[str, object], *, who: str = ADMIN) -> str:
        """Return the message of a refusal as wrong input."""
        status, answer = self.api.say(method, path, {NAME: values}, who=who)
        assert status == 400, answer
        return str(msgspec.convert(answer["NeutronError"], dict[str, object])["message"])

    def add(self, number: int, **values: object) -> Range:
        """Create a range of one id, of VXLAN unless another type is given."""
        bounds = {"network_type": "vxlan", "minimum": number, "maximum": number, **values}
        status, answer = self.api.say("POST", RANGES, {NAME: bounds}, who=ADMIN)
        assert status == 201, answer
        created = msgspec.convert(answer[NAME], Range)
        self._created.append(created["id"])
        return created

    def show(self, key: object) -> Range:
        return msgspec.convert(self.api.say("GET", f"{RANGES}/{key}", who=ADMIN)[1][NAME], Range)

    def put(self, key: object, **values: object) -> Range:
        status, answer = self.api.say("PUT", f"{RANGES}/{key}", {NAME: values}, who=ADMIN)
        assert status == 200, answer
        return msgspec.convert(answer[NAME], Range)

    def rows(self, query: str = "", *, who: str = ADMIN) -> list[Range]:
        status, answer = self.api.say("GET", f"{RANGES}?{query}", who=who)
        assert status == 200, answer
        return msgspec.convert(answer[f"{NAME}s"], list[Range])

    def sorted_by(self, name: str, direction: str, among: list[Range]) -> list[object]:
        """Return the values of an attribute of some ranges, in the order of the list."""
        keys = {each["id"] for each in among}
        rows = self.rows(f"sort_key={name}&sort_dir={direction}")
        return [row[name] for row in rows if row["id"] in keys]

    def filtered(self, query: str) -> set[object]:
        """Return the ids of the ranges that a filter lets through."""
        return {row["id"] for row in self.rows(query)}

    def check_fixed(self, key: object, **values: object) -> None:
        """Check that a PUT of each value is refused, and changes nothing."""
        before = self.show(key)
        for name, value in values.items():
            assert self.refusal("PUT", f"{RANGES}/{key}", {name: value}) == f"Cannot update read-only attribute {name}"
        assert self.show(key) == before

    def clear(self) -> None:
        for key in self._created:
            self.status("DELETE", f"{RANGES}/{key}")
        self._created.clear()


@contextlib.contextmanager
def open_door() -> Iterator[Door]:
    """Run a cluster with segment ranges, and its Neutron API."""
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.run("gnt-cluster", "modify", "--segment-ranges", "yes")
        (cluster_lab.master / "etc").mkdir(exist_ok=True)
        (cluster_lab.master / "etc/segments.ini").write_text(FILE)
        (cluster_lab.master / "lib/users").write_text(USERS)
        cluster_lab.kill_master()
        cluster_lab.start_master()
        door = Door(cluster_lab)
        yield door
        door.api.close()


@pytest.fixture(scope="module")
def opened() -> Iterator[Door]:
    with open_door() as door:
        yield door


@pytest.fixture
def door(opened: Door) -> Iterator[Door]:
    yield opened
    opened.clear()


@pytest.mark.promise("segments-16", "segments-32")
def test_the_id_is_a_uuid_of_the_servers_choice_by_which_a_range_is_found_and_sorted(door: Door) -> None:
    created = [door.add(number) for number in range(100, 108)]
    keys = [str(each["id"]) for each in created]
    assert [str(uuid.UUID(key)) for key in keys] == keys
    assert len(set(keys)) == 8
    assert {len(key) for key in keys} == {36}
    assert door.show(keys[3])["minimum"] == 103
    assert door.filtered(f"id={keys[3]}") == {keys[3]}
    assert door.filtered(f"id={keys[3]}&id={keys[5]}") == {keys[3], keys[5]}
    assert door.sorted_by("id", "asc", created) == sorted(keys)
    assert door.sorted_by("id", "desc", created) == sorted(keys, reverse=True)
    chosen = {"network_type": "vxlan", "minimum": 1, "maximum": 2, "id": str(uuid.uuid4())}
    assert door.refusal("POST", RANGES, chosen) == "Attribute 'id' not allowed in POST"
    door.check_fixed(keys[0], id=str(uuid.uuid4()))


@pytest.mark.promise("segments-33")
def test_the_name_is_empty_unless_it_is_set_at_once_or_later_and_finds_and_sorts_ranges(door: Door) -> None:
    names = ["m", "b", "z", "a", "q"]
    created = [door.add(100 + index, name=name) for index, name in enumerate(names)]
    nameless = door.add(200)
    assert nameless["name"] == ""
    assert [door.show(each["id"])["name"] for each in created] == names
    assert door.filtered("name=q") == {created[4]["id"]}
    assert door.filtered("name=q&name=b") == {created[4]["id"], created[1]["id"]}
    assert door.sorted_by("name", "asc", created) == sorted(names)
    assert door.sorted_by("name", "desc", created) == sorted(names, reverse=True)
    assert door.put(nameless["id"], name="k")["name"] == "k"
    assert door.show(nameless["id"])["name"] == "k"
    assert door.sorted_by("name", "asc", [*created, nameless]) == sorted([*names, "k"])
    assert door.put(nameless["id"], name="")["name"] == ""


@pytest.mark.promise("segments-17")
def test_a_name_has_255_characters_at_most(door: Door) -> None:
    longest = "ä" * 255
    key = door.add(100, name=longest)["id"]
    assert door.show(key)["name"] == longest
    text = f"Invalid input for name. Reason: '{longest}x' exceeds maximum length of 255."
    bounds = {"network_type": "vxlan", "minimum": 101, "maximum": 101}
    assert door.refusal("POST", RANGES, {**bounds, "name": longest + "x"}) == text
    assert door.refusal("PUT", f"{RANGES}/{key}", {"name": longest + "x"}) == text
    assert [row["name"] for row in door.rows("name=" + "%C3%A4" * 255)] == [longest]


@pytest.mark.promise("segments-34")
def test_a_range_is_a_default_one_only_by_the_file(door: Door) -> None:
    created = door.add(100)
    assert created["default"] is False
    assert door.show(created["id"])["default"] is False
    for value in (True, False):
        bounds = {"network_type": "vxlan", "minimum": 101, "maximum": 101, "default": value}
        assert door.refusal("POST", RANGES, bounds) == "Attribute 'default' not allowed in POST"
        door.check_fixed(created["id"], default=value)
    assert [row["default"] for row in door.rows("network_type=gre")] == [True]


@pytest.mark.promise("segments-35")
def test_a_range_is_shared_unless_its_creation_says_otherwise_and_stays_so(door: Door) -> None:
    shared, private = door.add(100), door.add(101, shared=False, project_id="green")
    spelled = [door.add(110 + index, shared=text) for index, text in enumerate(("true", "0", "False", 1))]
    assert [door.show(each["id"])["shared"] for each in (shared, private)] == [True, False]
    assert [each["shared"] for each in spelled] == [True, False, False, True]
    for each, value in ((shared, False), (private, True)):
        door.check_fixed(each["id"], shared=value)
    bounds = {"network_type": "vxlan", "minimum": 102, "maximum": 102, "shared": "perhaps"}
    assert "'perhaps' cannot be converted to boolean" in door.refusal("POST", RANGES, bounds)


@pytest.mark.promise("segments-20", "segments-36")
def test_the_project_of_a_range_is_set_once_decides_who_may_know_of_it_and_finds_and_sorts_ranges(door: Door) -> None:
    projects = ["red", "blue", "zinc", "green"]
    created = [door.add(100 + index, shared=False, project_id=name) for index, name in enumerate(projects)]
    assert [door.show(each["id"])["project_id"] for each in created] == projects
    assert door.filtered("project_id=green") == {created[3]["id"]}
    assert door.sorted_by("project_id", "asc", created) == sorted(projects)
    assert door.sorted_by("project_id", "desc", created) == sorted(projects, reverse=True)
    door.check_fixed(created[0]["id"], project_id="blue")
    longest = "p" * 255
    assert door.add(110, shared=False, project_id=longest)["project_id"] == longest
    bounds = {"network_type": "vxlan", "minimum": 111, "maximum": 111, "shared": False}
    assert "exceeds maximum length of 255" in door.refusal("POST", RANGES, {**bounds, "project_id": longest + "p"})
    for value in (5, None, ["green"]):
        assert "is not a valid string" in door.refusal("POST", RANGES, {**bounds, "project_id": value})
    path = f"{RANGES}/{created[3]['id']}"
    answers = {who: door.api.say("GET", path, who=who) for who in (GREEN, BLUE)}
    assert [status for status, _ in answers.values()] == [404, 404]
    assert ["NeutronError" in body for _, body in answers.values()] == [False, True]


@pytest.mark.promise("segments-37")
def test_the_network_type_is_one_of_four_set_once_and_finds_ranges(door: Door) -> None:
    created = {kind: door.add(100, network_type=kind)["id"] for kind in ("vxlan", "gre", "geneve")}
    created["vlan"] = door.add(100, network_type="vlan", physical_network="rack1")["id"]
    for kind, key in created.items():
        assert door.show(key)["network_type"] == kind
        assert {row["network_type"] for row in door.rows(f"network_type={kind}")} == {kind}
        assert door.filtered(f"network_type={kind}") & {*created.values()} == {key}
        door.check_fixed(key, network_type="gre")
    for refused in ("flat", "local", "VLAN", "", 5):
        bounds = {"network_type": refused, "minimum": 101, "maximum": 101}
        assert door.refusal("POST", RANGES, bounds) == (
            f"Invalid input for network_type. Reason: {refused} is not in valid_values."
        )


@pytest.mark.promise("segments-22", "segments-38")
def test_the_physical_network_is_a_short_text_set_once_that_finds_ranges(door: Door) -> None:
    longest = "p" * 64
    created = {
        name: door.add(100, network_type="vlan", physical_network=name)["id"] for name in ("rack1", "rack2", longest)
    }
    for name, key in created.items():
        assert door.show(key)["physical_network"] == name
        assert door.filtered(f"physical_network={name}") == {key}
        door.check_fixed(key, physical_network="rack3")
    bounds = {"network_type": "vlan", "minimum": 101, "maximum": 101}
    for value, reason in (
        (longest + "p", "exceeds maximum length of 64"), (5, "is not a valid string"), (None, "is not a valid string"),
    ):  # fmt: skip
        assert reason in door.refusal("POST", RANGES, {**bounds, "physical_network": value})


@pytest.mark.promise("segments-47")
def test_a_creation_without_minimum_or_maximum_is_refused(door: Door) -> None:
    before = door.filtered("network_type=vxlan")
    bounds = {"minimum": 100, "maximum": 101}
    for missing in bounds:
        values = {name: value for name, value in bounds.items() if name != missing}
        text = f"Failed to parse request. Required attribute '{missing}' not specified"
        assert door.refusal("POST", RANGES, {"network_type": "vxlan", **values}) == text
    assert door.filtered("network_type=vxlan") == before


@pytest.mark.promise("segments-30")
def test_ids_are_allocated_and_kept_while_no_api_runs(door: Door) -> None:
    cluster = door.api.cluster
    key = door.add(7000, maximum=7001, shared=False, project_id="green")["id"]
    door.api.close()
    cluster.run("gnt-network", "add", "--type", "vxlan", "--project", "green", "apart")
    assert cluster.rows("gnt-network", "segment", "apart") == [["7000"]]
    refusal = cluster.refused("gantry", "segment", "range", "set", "--minimum", "7001", str(key))
    assert "network apart has id 7000" in refusal
    door.api = test_neutron.Api(cluster, auth="http_basic")
    displayed = door.show(key)
    assert (displayed["used"], displayed["available"]) == ({"7000": "green"}, [7001])
    cluster.run("gnt-network", "remove", "apart")
    assert door.show(key)["available"] == [7000, 7001]


@pytest.mark.promise("segments-18", "segments-19", "segments-21", "segments-23", "segments-24")
def test_no_value_of_a_stored_range_is_unknown_or_of_another_type(door: Door) -> None:
    spellings: list[Range] = [
        {"shared": "0", "project_id": "green"},
        {"shared": 1},
        {"minimum": "102", "maximum": "102"},
    ]
    created = [door.add(100 + index, **values) for index, values in enumerate(spellings)]
    unknown = {"shared": True, "network_type": "gre", "minimum": 300, "maximum": 301}
    for name in unknown:
        assert door.status("POST", RANGES, {**unknown, name: None}) == 400
    for name in ("minimum", "maximum"):
        assert door.status("PUT", f"{RANGES}/{created[0]['id']}", {name: None}) == 400
    door.api.cluster.kill_master()
    door.api.cluster.start_master()
    (default,) = door.rows("network_type=gre")
    stored = [door.show(key) for key in (*(each["id"] for each in created), default["id"])]
    names = ("default", "shared", "network_type", "minimum", "maximum")
    assert [[type(row[name]) for name in names] for row in stored] == [[bool, bool, str, int, int]] * 4
    assert [[row[name] for name in names] for row in stored] == [
        [False, False, "vxlan", 100, 100], [False, True, "vxlan", 101, 101], [False, True, "vxlan", 102, 102],
        [True, True, "gre", 1, 20],
    ]  # fmt: skip


@pytest.mark.promise("segments-1", "segments-13", "segments-39", "segments-40")
def test_a_ranges_bounds_are_integers_that_are_set_on_creation_and_later(door: Door) -> None:
    assert door.status("GET", "/v2.0/extensions/network-segment-range") == 200
    key = door.add(100, maximum=109)["id"]
    path = f"{RANGES}/{key}"
    assert door.filtered("network_type=vxlan") == {key}
    changes: list[Range] = [{"minimum": 95}, {"maximum": 120}, {"minimum": "96", "maximum": "97"}]
    displayed = [door.put(key, **change) for change in changes]
    assert [(each["minimum"], each["maximum"]) for each in displayed] == [(95, 109), (95, 120), (96, 97)]
    assert door.show(key)["available"] == [96, 97]
    for name in ("minimum", "maximum"):
        values: list[object] = ["many", "1.5", None, [], 0, 2**32]
        for value in values:
            assert door.status("PUT", path, {name: value}) == 400
            bounds = {"network_type": "vxlan", "minimum": 200, "maximum": 201, name: value}
            assert door.status("POST", RANGES, bounds) == 400
    assert door.status("DELETE", path) == 204
    assert door.rows("network_type=vxlan") == []


@pytest.mark.promise("segments-41", "segments-42", "segments-58")
def test_used_and_free_ids_are_displayed_and_cannot_be_set_and_used_ones_keep_their_range(door: Door) -> None:
    key = door.add(100)["id"]
    segment = {"provider:network_type": "vxlan", "provider:segmentation_id": 100, "project_id": "green"}
    network = door.api.say("POST", "/v2.0/networks", {"network": segment}, who=ADMIN)[1]["network"]
    assert isinstance(network, dict)
    displayed = door.show(key)
    assert (displayed["used"], displayed["available"]) == ({"100": "green"}, [])
    door.check_fixed(key, used={}, available=[100])
    for name, value in (("used", {}), ("available", [101])):
        bounds = {"network_type": "vxlan", "minimum": 101, "maximum": 101, name: value}
        assert door.refusal("POST", RANGES, bounds) == f"Attribute '{name}' not allowed in POST"
    assert door.status("DELETE", f"{RANGES}/{key}") == 409
    assert door.show(key) == displayed
    assert door.status("DELETE", f"/v2.0/networks/{network['id']}") == 204
    displayed = door.show(key)
    assert (displayed["used"], displayed["available"]) == ({}, [100])
    assert door.status("DELETE", f"{RANGES}/{key}") == 204


@pytest.mark.promise("segments-43", "segments-44", "segments-45", "segments-46")
def test_what_a_creation_leaves_out_has_its_default_but_for_the_network_type(door: Door) -> None:
    callers = door.add(100, shared=False)
    assert (callers["shared"], callers["project_id"]) == (False, "default")
    everybodys = door.add(101)
    assert (everybodys["shared"], everybodys["project_id"]) == (True, None)
    untyped = {"minimum": 102, "maximum": 102}
    assert "Network type None does not support" in door.refusal("POST", RANGES, untyped)
    assert door.add(103)["physical_network"] == ""
    assert door.add(104, physical_network="rack1")["physical_network"] == ""
    assert "requires 'physical_network'" in door.refusal("POST", RANGES, {**untyped, "network_type": "vlan"})
    vlan = door.add(105, network_type="vlan", physical_network="rack1")
    assert vlan["physical_network"] == "rack1"


@pytest.mark.promise("segments-7", "segments-8", "segments-56", "segments-77")
def test_ranges_and_chosen_ids_are_for_administrators(door: Door) -> None:
    created = door.add(100, shared=False, project_id="green")
    item, bounds = f"{RANGES}/{created['id']}", {"network_type": "vxlan", "minimum": 101, "maximum": 101}
    requests = [("GET", item, None), ("PUT", item, {"name": "x"}), ("DELETE", item, None), ("POST", RANGES, bounds)]
    for who, statuses in ((GREEN, [404, 404, 404, 403]), ("", [401] * 4)):
        assert [door.status(*request, who=who) for request in requests] == statuses
    assert door.rows(who=GREEN) == []
    assert door.show(created["id"]) == created
    assert door.filtered("network_type=vxlan") == {created["id"]}
    chosen = {"network": {"provider:network_type": "vxlan", "provider:segmentation_id": 100}}
    assert door.api.say("POST", "/v2.0/networks", chosen, who=GREEN)[0] == 403
    status, answer = door.api.say("POST", "/v2.0/networks", chosen, who=ADMIN)
    assert status == 201
    network = msgspec.convert(answer["network"], Range)
    assert network["provider:segmentation_id"] == 100
    assert door.status("DELETE", f"/v2.0/networks/{network['id']}") == 204
