"""Queries over one snapshot: fields, order, names, and the calls to nodes."""

import msgspec
import pytest
from tests.operations import build
from tests.state import build as state_build

from gantry import errors
from gantry.model import access, cluster, fields, instance, job, network, opcodes, webhook
from gantry.operations import fill
from gantry.operations.query import engine, lock
from gantry.rpc import calls

NORMAL, UNKNOWN, NO_DATA, UNAVAILABLE, OFFLINE = (int(status) for status in fields.ResultStatus)
UP, DOWN, MARKED = instance.AdminState.UP, instance.AdminState.DOWN, instance.AdminState.OFFLINE


class Queries:
    """A cluster with what queries look at."""

    def __init__(self) -> None:
        self.lab = build.MemoryCluster()
        self.jobs: dict[int, job.Job] = {}
        self.archive: dict[int, job.Job] = {}
        self.locks: list[lock.Row] = []
        self.journal_begin = 1
        self.source = engine.Source(
            snapshot=lambda: self.lab.state,
            ledger=self.lab.ledger,
            nodes=self.lab.nodes,
            jobs=lambda: self.jobs,
            archived_job=self.archive.get,
            archived_numbers=lambda: self.archive,
            locks=lambda: self.locks,
            journal_begin=self.begin,
        )

    async def begin(self) -> int:
        return self.journal_begin

    async def rows(self, what: str, *names: str, filter_: object = None) -> list[list[tuple[int, object]]]:
        return (await engine.query(self.source, what, names, filter_=filter_)).rows

    async def values(self, what: str, *names: str, filter_: object = None) -> list[object]:
        """Return the only value of each row."""
        return [row[0][1] for row in await self.rows(what, *names, filter_=filter_)]

    async def cell(self, what: str, name: str, field: str) -> tuple[int, object]:
        (row,) = await self.rows(what, field, filter_=["=", "name", name])
        return row[0]

    def runs(self, node: str) -> None:
        self.lab.machine(node).running["vm1"] = fill.fill(self.lab.state, build.VM)


@pytest.fixture
def queries() -> Queries:
    return Queries()


def other_objects() -> list[
    network.SegmentRange | network.Port | network.SubnetPool | access.Rule | access.Token | webhook.Webhook
]:
    """Return an object of each kind of which ``MemoryCluster`` has none."""
    return [
        network.SegmentRange(uuid="r1", name="", network_type="vxlan", minimum=1, maximum=9),
        network.Port(uuid="p1", name="", network="net", mac="aa:00:00:00:00:55", ip=("192.0.2.55",), device_id="d"),
        network.SubnetPool(
            uuid="sp1", name="", prefixes=("10.0.0.0/8",), default_prefixlen=26, min_prefixlen=8, max_prefixlen=32
        ),
        access.Rule(uuid="a1", name="user:bob", role=access.Role.ADMIN, scope=access.Scope.GROUP, object="g"),
        access.Token(uuid="t1", name="bob:ci", id="0123456789", secret_hash="0" * 64, end=5.0),
        webhook.Webhook(uuid="w1", name="hook", origin="https://a", secret_url="https://a/b", secret="c"),
    ]


def named(number: int, name: str) -> instance.Instance:
    return msgspec.structs.replace(build.VM, uuid=f"i{number}", name=name, nics=())


async def test_tokens_and_rules_of_a_user_are_in_the_order_of_all(queries: Queries) -> None:
    for number in (3, 10, 1, 2):
        name = f"bob:t{number}"
        queries.lab.put(access.Token(uuid=f"t{number}", name=name, id=f"{number:010}", secret_hash=""))
        role, tag = access.Role.ADMIN, f"t{number}"
        rule = access.Rule(uuid=f"r{number}", name="user:bob", role=role, scope=access.Scope.TAG, object=tag)
        queries.lab.put(rule)
    assert await queries.values("token", "label", filter_=["=", "user", "bob"]) == ["t1", "t2", "t3", "t10"]
    tags = ["tag:t1", "tag:t10", "tag:t2", "tag:t3"]
    assert await queries.values("access", "on", filter_=["=", "who", "user:bob"]) == tags


async def test_names_are_in_natural_order_always_the_same(queries: Queries) -> None:
    expected = ["a", "node1", "node01", "node2", "node10", "node10a", "vm1", "z2.x10"]
    expected[1:3] = sorted(expected[1:3])
    queries.lab.put(*(named(index + 5, name) for index, name in enumerate(reversed(expected)) if name != "vm1"))
    assert await queries.values("instance", "name") == expected


async def test_names_that_are_asked_for_keep_their_order_and_must_exist(queries: Queries) -> None:
    choice = ["|", ["=", "name", "node3"], ["=", "name", "node1"], ["=", "name", "n2"]]
    assert await queries.values("node", "name", filter_=choice) == ["node3", "node1", "node2"]
    with pytest.raises(errors.NotFoundError, match="no such node: node9"):
        await queries.values("node", "name", filter_=["|", ["=", "name", "node1"], ["=", "name", "node9"]])


async def test_an_unknown_field_is_answered_as_such(queries: Queries) -> None:
    result = await engine.query(queries.source, "node", ["name", "colour"], filter_=["=", "name", "node1"])
    assert [(field.name, field.kind) for field in result.fields] == [("name", "text"), ("colour", "unknown")]
    assert result.rows == [[(NORMAL, "node1"), (UNKNOWN, None)]]
    result = await engine.query(queries.source, "node", ["nmae", "colour"], filter_=None)
    assert [field.doc for field in result.fields] == ["did you mean name?", "list-fields shows the known fields"]


async def test_what_cannot_be_asked_is_refused(queries: Queries) -> None:
    with pytest.raises(
        errors.InvalidError, match="no such resource to query: weather; resources: access, export, group"
    ):
        await queries.rows("weather", "name")
    with pytest.raises(errors.InvalidError, match="filter uses unknown fields of node: colour"):
        await queries.rows("node", "name", filter_=["?", "colour"])
    with pytest.raises(errors.InvalidError, match=r"unknown fields of node: ofline; did you mean offline\?"):
        await queries.rows("node", "name", filter_=["?", "ofline"])
    with pytest.raises(errors.FilterError):
        await queries.rows("node", "name", filter_=["%"])
    with pytest.raises(errors.FilterError, match="pinst_list is a list of texts"):
        await queries.rows("node", "name", filter_=["=", "pinst_list", "vm1"])
    with pytest.raises(errors.InvalidError, match="unknown output fields of node: colour"):
        await engine.table(queries.source, "node", [], ["name", "colour"])


async def test_nodes_are_asked_only_when_a_field_needs_them(queries: Queries) -> None:
    every = [name for name, field in fields.REGISTRY["instance"].items() if not field.live]
    await queries.rows("instance", *every)
    await queries.rows("node", *[name for name, field in fields.REGISTRY["node"].items() if not field.live])
    assert queries.lab.nodes.made == []
    await queries.rows("node", "name", filter_=[">", "mfree", 5])
    assert [name for name, _ in queries.lab.nodes.made] == ["node1", "node2", "node3"]
    queries.lab.nodes.made.clear()
    await queries.rows("node", "mfree", filter_=["=", "name", "node2"])
    assert [name for name, _ in queries.lab.nodes.made] == ["node2"]
    queries.lab.nodes.made.clear()
    await queries.rows("instance", "status")
    assert [type(call) for _, call in queries.lab.nodes.made] == [calls.InstanceList]


async def test_nodes_examine_only_the_guests_of_the_rows(queries: Queries) -> None:
    queries.lab.put(*(named(number, f"x{number}") for number in range(100, 300)))
    queries.runs("node1")
    assert await queries.cell("instance", "vm1", "oper_state") == (NORMAL, True)
    ((_, asked_for_one),) = queries.lab.nodes.made
    queries.lab.nodes.made.clear()
    assert len(await queries.rows("instance", "oper_state")) == 201
    ((_, asked_for_all),) = queries.lab.nodes.made
    assert isinstance(asked_for_one, calls.InstanceList)
    assert isinstance(asked_for_all, calls.InstanceList)
    assert (asked_for_one.names, asked_for_all.names) == (("vm1",), None)


async def test_a_search_without_a_result_asks_no_node(queries: Queries) -> None:
    queries.runs("node1")
    assert await queries.values("instance", "oper_state", filter_=["=[]", "nic.ips", "192.0.2.99"]) == []
    assert await queries.values("instance", "oper_state", filter_=["=", "uuid", "of-a-removed-instance"]) == []
    assert queries.lab.nodes.made == []


async def test_only_the_nodes_of_the_rows_are_asked_for_stray_guests(queries: Queries) -> None:
    queries.runs("node2")
    assert await queries.cell("node", "node2", "stray_guests") == (NORMAL, ["vm1"])
    assert {name for name, _ in queries.lab.nodes.made} == {"node2"}


async def test_live_data_of_nodes_that_do_not_give_any(queries: Queries) -> None:
    queries.lab.put(msgspec.structs.replace(build.NODES[1], offline=True))
    queries.lab.put(msgspec.structs.replace(build.NODES[2], vm_capable=False))
    queries.lab.machine("node1").down = True
    assert await queries.rows("node", "name", "mfree", "dfree") == [
        [(NORMAL, "node1"), (NO_DATA, None), (NO_DATA, None)],
        [(NORMAL, "node2"), (OFFLINE, None), (OFFLINE, None)],
        [(NORMAL, "node3"), (UNAVAILABLE, None), (UNAVAILABLE, None)],
    ]
    assert await queries.values("node", "name", filter_=["<", "mfree", 10**9]) == []
    assert await queries.values("node", "name", filter_=["!", ["?", "mfree"]]) == ["node1", "node2", "node3"]


async def test_the_end_of_a_certificate_is_not_available_for_a_node_without_a_recorded_one(queries: Queries) -> None:
    recorded = cluster.Certificate(keys=("ab",), serial="1f", end=1_900_000_000.0)
    queries.lab.put(msgspec.structs.replace(build.NODES[1], certificate=recorded))
    assert await queries.cell("node", "node2", "certificate_end") == (NORMAL, 1_900_000_000.0)
    assert await queries.cell("node", "node3", "certificate_end") == (UNAVAILABLE, None)


async def test_live_data_of_nodes(queries: Queries) -> None:
    (row,) = await queries.rows("node", "mfree", "mtotal", "dfree", "ctotal", "bootid", filter_=["=", "name", "node1"])
    assert [value for _, value in row] == [2048, 4096, 5000, 4, "b"]


@pytest.mark.parametrize("wish", list(instance.AdminState))
@pytest.mark.parametrize(
    ("where", "node", "expected"),
    [
        ("home", "up", {UP: "running", DOWN: "ERROR_up", MARKED: "ERROR_up"}),
        ("elsewhere", "up", dict.fromkeys(instance.AdminState, "ERROR_wrongnode")),
        ("both", "up", dict.fromkeys(instance.AdminState, "ERROR_wrongnode")),
        ("nowhere", "up", {UP: "ERROR_down", DOWN: "ADMIN_down", MARKED: "ADMIN_offline"}),
        ("nowhere", "silent", dict.fromkeys(instance.AdminState, "ERROR_nodedown")),
        ("nowhere", "offline", dict.fromkeys(instance.AdminState, "ERROR_nodeoffline")),
        ("elsewhere", "silent", dict.fromkeys(instance.AdminState, "ERROR_wrongnode")),
    ],
)
async def test_the_status_of_an_instance(
    queries: Queries, where: str, node: str, wish: instance.AdminState, expected: dict[instance.AdminState, str]
) -> None:
    lab = queries.lab
    lab.put(
        msgspec.structs.replace(build.VM, admin_state=wish), msgspec.structs.replace(named(2, "x"), primary_node="n2")
    )
    if where in ("home", "both"):
        queries.runs("node1")
    if where in ("elsewhere", "both"):
        queries.runs("node2")
    lab.machine("node1").down = node == "silent"
    if node == "offline":
        lab.put(msgspec.structs.replace(build.OWNER, master_node="n2"))
        lab.put(msgspec.structs.replace(build.NODES[0], offline=True))
    assert await queries.cell("instance", "vm1", "status") == (NORMAL, expected[wish])


@pytest.mark.parametrize(
    ("allowed", "how", "uuid", "expected"),
    [
        (True, "shutdown", "i1", "USER_down"),
        (True, "crashed", "i1", "ERROR_down"),
        (True, "shutdown", "i0", "ERROR_down"),
        (False, "shutdown", "i1", "ERROR_down"),
    ],
)
@pytest.mark.parametrize("level", ["instance", "cluster"])
async def test_an_instance_that_its_user_switched_off_is_down_by_intent(
    queries: Queries, level: str, *, allowed: bool, how: str, uuid: str, expected: str
) -> None:
    own = {"user_shutdown": allowed}
    owner = msgspec.structs.replace(build.OWNER, hvparams={"kvm": own} if level == "cluster" else {})
    vm = msgspec.structs.replace(build.VM, hypervisor="kvm", admin_state=instance.AdminState.UP)
    queries.lab.put(owner, msgspec.structs.replace(vm, hvparams=own if level == "instance" else {}))
    ending = calls.Ending(name="vm1", uuid=uuid, hypervisor="kvm", how=how, time=0.0)
    queries.lab.machine("node1").endings = (ending,)
    assert await queries.cell("instance", "vm1", "status") == (NORMAL, expected)
    await queries.lab.run(opcodes.ClusterVerify(error_codes=True))
    assert any("EINSTANCEDOWN" in line for line in queries.lab.log.lines) == (expected == "ERROR_down")
    queries.runs("node1")
    assert await queries.cell("instance", "vm1", "status") == (NORMAL, "running")


@pytest.mark.parametrize(("node", "status"), [("up", UNAVAILABLE), ("silent", NO_DATA), ("offline", OFFLINE)])
async def test_what_runs_is_not_known_of_nodes_that_do_not_say(queries: Queries, node: str, status: int) -> None:
    queries.lab.machine("node1").down = node == "silent"
    if node == "offline":
        queries.lab.put(msgspec.structs.replace(build.OWNER, master_node="n2"))
        queries.lab.put(msgspec.structs.replace(build.NODES[0], offline=True))
    assert (await queries.cell("instance", "vm1", "oper_ram"))[0] == status
    assert (await queries.cell("instance", "vm1", "oper_vcpus"))[0] == status
    running = (NORMAL, False) if node == "up" else (status, None)
    assert await queries.cell("instance", "vm1", "oper_state") == running


async def test_what_an_instance_has_now(queries: Queries) -> None:
    queries.runs("node1")
    (row,) = await queries.rows("instance", "oper_state", "oper_ram", "oper_vcpus", filter_=["=", "name", "vm1"])
    assert [value for _, value in row] == [True, 128, 1]


async def test_a_running_instance_tells_its_console_and_only_when_that_is_asked_for(queries: Queries) -> None:
    assert await queries.cell("instance", "vm1", "console") == (UNAVAILABLE, None)
    queries.runs("node1")
    await queries.cell("instance", "vm1", "status")
    assert queries.lab.nodes.calls_of(calls.InstanceConsole) == []
    status, console = await queries.cell("instance", "vm1", "console")
    assert status == NORMAL
    assert msgspec.convert(console, calls.Console).instance == "vm1"
    queries.lab.machine("node1").down = True
    assert await queries.cell("instance", "vm1", "console") == (NO_DATA, None)


@pytest.mark.promise("cluster-78")
async def test_parameters_one_by_one_and_as_a_whole_in_the_seeds_spelling(queries: Queries) -> None:
    owner = msgspec.structs.replace(build.OWNER, beparams={"default": {"vcpus": 3}}, osparams={"plain": {"a": "b"}})
    queries.lab.put(owner)
    names = (
        "hvparam/migration_mode",
        "beparam/vcpus",
        "hvparams",
        "beparams",
        "osparams",
        "custom_beparams",
        "hv/acpi",
    )
    result = await engine.query(queries.source, "instance", names, filter_=["=", "beparam/vcpus", 3])
    assert [field.name for field in result.fields] == list(names)
    ((mode, vcpus, hv, be, os, custom, acpi),) = result.rows
    assert (mode, vcpus, custom, os) == ((NORMAL, "live"), (NORMAL, 3), (NORMAL, {}), (NORMAL, {"a": "b"}))
    assert hv == (NORMAL, {"migration_mode": "live"})
    assert isinstance(be[1], dict)
    assert be[1]["vcpus"] == 3
    assert acpi[0] == UNAVAILABLE


async def test_devices_by_number_and_as_lists(queries: Queries) -> None:
    names = (
        "nic.ips",
        "nic.ip/0",
        "nic.network.name/0",
        "nic.bridge/0",
        "nic.mac/1",
        "disk.size/0",
        "disk.size/1",
        "ip",
    )
    (row,) = await queries.rows("instance", *names)
    assert row == [
        (NORMAL, [["192.0.2.10"]]),
        (NORMAL, ["192.0.2.10"]),
        (NORMAL, "net1"),
        (NORMAL, "br0"),
        (UNAVAILABLE, None),
        (NORMAL, 64),
        (UNAVAILABLE, None),
        (NORMAL, "192.0.2.10"),
    ]


async def test_a_network_shows_all_its_subnets_and_pools_and_what_is_used_and_in_quarantine(queries: Queries) -> None:
    lab = queries.lab
    lab.put(
        other_objects()[1],
        network.Quarantine(network="net", ip="192.0.2.12", until=5000.0, instance="i9", name="old"),
        network.Quarantine(network="net", ip="192.0.2.9", until=6000.0, instance="p9", name="vip", noun="port"),
        network.Quarantine(network="spare", ip="192.0.2.12", until=5000.0, instance="i9", name="old"),
    )
    columns = ("cidrs", "subnet_cnt", "pools", "used_count", "quarantined_count", "quarantine")
    (row,) = await queries.rows("network", *columns, filter_=["=", "name", "net1"])
    assert [value for _, value in row] == [
        ["192.0.2.0/24", "2001:db8::/64"],
        2,
        ["192.0.2.10-192.0.2.19", "2001:db8::10-2001:db8::1f"],
        2,
        2,
        [["192.0.2.9", "port", "vip", 6000.0], ["192.0.2.12", "instance", "old", 5000.0]],
    ]
    lab.ledger.quarantine.now = lambda: 5500.0
    (row,) = await queries.rows("network", "quarantined_count", "quarantine", filter_=["=", "name", "net1"])
    assert [value for _, value in row] == [1, [["192.0.2.9", "port", "vip", 6000.0]]]
    assert await queries.values("network", "quarantined_count", filter_=["=", "name", "spare"]) == [0]


async def test_an_instance_without_a_nic_has_no_address_to_compare(queries: Queries) -> None:
    queries.lab.put(named(2, "bare"))
    for filter_ in (["=", "nic.ip/0", "9.9.9.9"], ["=", "ip", "9.9.9.9"], ["=[]", "nic.ips", "9.9.9.9"]):
        assert await queries.values("instance", "name", filter_=filter_) == []
    for filter_ in (["=", "nic.ip/0", "192.0.2.10"], ["=", "ip", "192.0.2.10"], ["=[]", "nic.ips", "192.0.2.10"]):
        assert await queries.values("instance", "name", filter_=filter_) == ["vm1"]
    assert await queries.values("instance", "name", filter_=["!=", "ip", "192.0.2.10"]) == ["bare"]


SHAPES: dict[fields.Shape, type | tuple[type, ...]] = {
    fields.Shape.TEXT: str,
    fields.Shape.NUMBER: (int, float),
    fields.Shape.BOOL: bool,
    fields.Shape.TIME: tuple,
    fields.Shape.MAP: dict,
}


async def test_every_field_has_values_of_its_shape(queries: Queries) -> None:
    queries.jobs[1] = state_build.ended(state_build.queued(1))
    queries.locks.append(("instance/i1", "exclusive", ["job/1"], [], []))
    queries.runs("node1")
    queries.lab.machine("node1").exports["vm1"] = ""
    queries.lab.put(*other_objects())
    for what in engine.GETTERS:
        assert all(field.form for field in fields.REGISTRY[what].values() if field.kind is fields.Kind.OTHER)
        result = await engine.query(queries.source, what, list(fields.REGISTRY[what]))
        for row in result.rows:
            for field, (status, value) in zip(result.fields, row, strict=True):
                if status == NORMAL and value is not None:
                    assert isinstance(value, SHAPES.get(field.shape, list)), f"{what} {field.name}"


async def test_every_field_of_every_resource_is_json(queries: Queries) -> None:
    queries.jobs[1] = state_build.ended(state_build.queued(1))
    waits = [("job/2", [("job/1", "exclusive")])]
    queries.locks.append(("instance/i1", "exclusive", ["job/1"], [("shared", ["job/2"])], waits))
    queries.runs("node1")
    queries.lab.machine("node1").exports["vm1"] = ""
    queries.lab.put(*other_objects())
    for what in engine.GETTERS:
        result = await engine.query(queries.source, what, list(fields.REGISTRY[what]))
        assert result.rows, what
        assert msgspec.json.decode(msgspec.json.encode(result.rows)), what


@pytest.mark.promise("networks-59", "networks-60", "networks-80", "networks-81")
async def test_a_network_shows_its_subnets_and_what_the_older_fields_mean(queries: Queries) -> None:
    first = network.Subnet(
        uuid="a",
        cidr="10.0.0.0/29",
        gateway="10.0.0.1",
        dhcp=True,
        name="lan",
        pools=(network.Pool(range="10.0.0.2-10.0.0.4"),),
    )
    second = network.Subnet(uuid="b", cidr="10.1.0.0/24", pools=(network.Pool(range="10.1.0.2", name="one"),))
    third = network.Subnet(uuid="c", cidr="2001:db8:5::/64", gateway="2001:db8:5::1", external=("2001:db8:5::7",))
    nic = instance.Nic(uuid="x9", mac="aa:00:00:00:00:99", ip=("10.0.0.3",), network="many")
    queries.lab.put(
        network.Network(uuid="many", name="many", subnets=(first, second, third)),
        msgspec.structs.replace(named(9, "vm9"), nics=(nic,)),
    )
    names = (
        "network",
        "gateway",
        "network6",
        "gateway6",
        "map",
        "free_count",
        "reserved_count",
        "inst_list",
        "subnets",
    )
    (row,) = await queries.rows("network", *names, filter_=["=", "name", "many"])
    *older, subnets = [value for _, value in row]
    assert older == ["10.0.0.0/29", "10.0.0.1", "2001:db8:5::/64", "2001:db8:5::1", ".X.", 3, 1, ["vm9"]]
    assert isinstance(subnets, list)
    subnet = subnets[0]
    assert (subnet["cidr"], subnet["gateway"], subnet["dhcp"], subnet["name"]) == (
        "10.0.0.0/29",
        "10.0.0.1",
        True,
        "lan",
    )
    (pool,) = subnet["pools"]
    assert (pool["start"], pool["end"], pool["map"]) == ("10.0.0.2", "10.0.0.4", ".X.")
    assert subnets[1]["pools"][0]["name"] == "one"
    assert await queries.cell("network", "many", "external_reservations") == (NORMAL, "2001:db8:5::7")


async def test_a_cable_has_none_of_it(queries: Queries) -> None:
    for name in ("network", "gateway", "network6", "gateway6", "map", "mac_prefix", "external_reservations"):
        assert await queries.cell("network", "spare", name) == (UNAVAILABLE, None)
    assert await queries.cell("network", "net1", "group_list") == (NORMAL, [["default", "bridged", "br7", "12"]])


@pytest.mark.promise("cluster-97")
async def test_the_status_of_nodes_and_their_flags(queries: Queries) -> None:
    flags = {"n2": {"offline": True}, "n3": {"drained": True}}
    for node in build.NODES[1:]:
        queries.lab.put(msgspec.structs.replace(node, **flags[node.uuid]))
    both = cluster.Node(uuid="n4", name="node4", primary_ip="203.0.113.4", group="g", master_candidate=True)
    queries.lab.put(both, msgspec.structs.replace(both, uuid="n5", name="node5", master_candidate=False))
    assert await queries.values("node", "role") == ["M", "O", "D", "C", "R"]
    assert await queries.values("node", "offline") == [False, True, False, False, False]
    assert await queries.values("node", "drained") == [False, False, True, False, False]
    assert await queries.values("node", "master_candidate") == [True, False, False, True, False]


async def test_a_job_that_only_plans_is_listed_as_a_dry_run(queries: Queries) -> None:
    op = opcodes.TestDelay(duration=1.0, dry_run=True)
    planned = msgspec.structs.replace(state_build.queued(1), ops=(job.Step(input=op),))
    queries.jobs = {1: planned, 2: state_build.queued(2)}
    queries.lab.state = queries.lab.state.apply(state_build.put(*queries.jobs.values()), serial=99)
    assert await queries.rows("job", "id", "dry_run") == [[(NORMAL, 1), (NORMAL, True)], [(NORMAL, 2), (NORMAL, False)]]


async def test_jobs_are_listed_by_number_and_archived_ones_on_request(queries: Queries) -> None:
    queries.jobs = {number: state_build.queued(number) for number in (10, 9)}
    queries.archive |= {number: state_build.ended(state_build.queued(number)) for number in (4, 3)}
    queries.lab.state = queries.lab.state.apply(state_build.put(*queries.jobs.values()), serial=99)
    assert await queries.values("job", "id") == [9, 10]
    assert await queries.rows("job", "id", "archived") == [
        [(NORMAL, 3), (NORMAL, True)],
        [(NORMAL, 4), (NORMAL, True)],
        [(NORMAL, 9), (NORMAL, False)],
        [(NORMAL, 10), (NORMAL, False)],
    ]
    assert await queries.values("job", "id", filter_=["?", "archived"]) == [3, 4]
    assert await queries.values("job", "status", filter_=["|", ["=", "id", 9], ["=", "id", "3"]]) == [
        "queued",
        "success",
    ]
    for number in (7, "7", "seven", -1, True):
        with pytest.raises(errors.NotFoundError, match="no such job"):
            await queries.rows("job", "id", filter_=["=", "id", number])


async def test_locks_are_filtered_by_name_as_by_anything(queries: Queries) -> None:
    queries.locks = [("node/b", None, None, [], []), ("node/a", "shared", ["job/1"], [], [])]
    assert await queries.values("lock", "name") == ["node/a", "node/b"]
    assert await queries.values("lock", "name", filter_=["=", "name", "node/b"]) == ["node/b"]
    assert await queries.values("lock", "name", filter_=["=", "name", "node/c"]) == []


async def test_the_older_form_has_plain_values(queries: Queries) -> None:
    rows = await engine.table(queries.source, "instance", ["vm1"], ["name", "nic.mac/1", "nic.count"])
    assert rows == [["vm1", None, 1]]


async def test_fields_are_described_all_or_by_name() -> None:
    assert [field.name for field in engine.query_fields("lock", None)] == ["name", "mode", "owner", "pending", "waits"]
    assert [field.kind for field in engine.query_fields("lock", ["mode", "colour"])] == ["text", "unknown"]
    with pytest.raises(errors.InvalidError):
        engine.query_fields("weather", None)
