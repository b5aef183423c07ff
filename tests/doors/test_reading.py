"""Reading on a cluster with the setting ``rules``: no wire shows an invisible object in any way.

``RuledCluster`` is a simulated cluster with three node groups, and with objects of each kind in each. What a user may
see is worked out here from the rules by ``access.decide``, apart from the code that is tested.
"""

import base64
import json
import random
import re
import types
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doors import talk

from gantry.daemons import remote
from gantry.doors import http
from gantry.doors.luxi import METHODS, reading, usage
from gantry.doors.luxi.services import Services
from gantry.model import access, fields, token_text
from gantry.operations.access import scopes, views
from gantry.operations.query import engine
from gantry.runtime import http_interface
from gantry.sim import cluster
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states

USERS = f"{cluster.FOLDERS.lib}/users"
TEXT = b"alice one write\nbob two read\ncarol three read\n"
PASSWORDS = {"alice": "one", "bob": "two", "carol": "three"}
BOB = access.Subject(user="bob")

NETWORKS = {"lan-aqua": "198.18.0", "lan-blue": "198.18.1", "lan-cyan": "198.18.2"}
INSTANCES = {
    "vm-apple": ("node1", "lan-aqua", ("shop",)),
    "vm-birch": ("node2", "lan-aqua", ("shop", "billing")),
    "vm-cedar": ("node2", "lan-blue", ("billing",)),
    "vm-dogwood": ("node3", "lan-cyan", ()),
    "vm-elder": ("node3", "lan-blue", ("web",)),
}
ROLES = [
    *((role, "cluster") for role in ("viewer", "operator", "network-admin")),
    *(("viewer", f"group:{name}") for name in ("default", "group2", "group3")),
    *((role, f"tag:{tag}") for role in ("viewer", "operator", "network-admin") for tag in ("shop", "billing", "west")),
    *((role, f"instance:{name}") for role in ("viewer", "admin") for name in INSTANCES),
    *((role, f"network:{name}") for role in ("viewer", "network-admin") for name in NETWORKS),
]
UNKNOWN = {"name": "vm-zzz", "uuid": "00000000-0000-4000-8000-000000000000", "address": "203.0.113.99"}
UNKNOWN |= {"mac": "aa:bb:cc:dd:ee:ff"}


class RuledCluster:
    """A simulated cluster whose peers on LUXI may be other users than root, and its remote API."""

    def __init__(self, simulated: cluster.SimulatedCluster, patch: pytest.MonkeyPatch) -> None:
        self.simulated = simulated
        self._patch = patch
        self.become("root")
        simulated.run(simulated.master.disk.write(USERS, TEXT))
        self.server: http.Server = remote.server(simulated.master, cluster.FOLDERS)
        for number in (2, 3):
            group = f"group{number}"
            self.do("OP_GROUP_ADD", group_name=group)
            self.do("OP_GROUP_ASSIGN_NODES", group_name=group, nodes=[f"node{number}"], force=True)
        for name, prefix in NETWORKS.items():
            self.do("OP_NETWORK_ADD", network_name=name, network=f"{prefix}.0/24", gateway=f"{prefix}.1")
            self.do("OP_NETWORK_SET_PARAMS", network_name=name, add_reserved_ips=[f"{prefix}.7"])
            for group in ("default", "group2", "group3"):
                connection = {"network_mode": "routed", "network_link": "main"}
                self.do("OP_NETWORK_CONNECT", network_name=name, group_name=group, **connection)
        self.do("OP_CLUSTER_SET_PARAMS", ipam_hold_time=10**6, reading="rules")
        for index, (name, (node, net, tags)) in enumerate(INSTANCES.items()):
            nics = [{"network": net, "ip": f"{NETWORKS[net]}.{20 + index}"}]
            self.do(
                "OP_INSTANCE_CREATE", instance_name=name, pnode=node, disk_template="diskless", nics=nics,
                no_install=True, conflicts_check=False,
            )  # fmt: skip
            if tags:
                self.do("OP_TAGS_SET", kind="instance", name=name, tags=tags)
        self.do("OP_TAGS_SET", kind="network", name="lan-cyan", tags=["west"])
        self.do("OP_TAGS_SET", kind="node", name="node3", tags=["rack9"])
        port = {"name": "port-holly", "network": "lan-blue", "fixed": [{"ip": "198.18.1.77"}]}
        self.do("OP_PORT_ADD", ports=[port])
        # Former owners, one of them removed: of the past and in quarantine.
        self.do("OP_INSTANCE_SET_PARAMS", instance_name="vm-cedar", nics=[["modify", "0", {"ip": "198.18.1.60"}]])
        gone = {"pnode": "node2", "disk_template": "diskless", "no_install": True, "conflicts_check": False}
        nics = [{"network": "lan-blue", "ip": "198.18.1.61"}]
        self.do("OP_INSTANCE_CREATE", instance_name="vm-fir", nics=nics, **gone)
        self.do("OP_INSTANCE_REMOVE", instance_name="vm-fir")
        self.do(
            "OP_SUBNET_POOL_ADD", name="pool-ivy", prefixes=["10.77.0.0/16"], default_prefixlen=26, min_prefixlen=24,
            max_prefixlen=30,
        )  # fmt: skip
        self.do("OP_ACCESS_ADD", who="user:carol", role="operator", on="instance:vm-dogwood")
        self.first_rules = {*self.state.accessrules}

    @property
    def state(self) -> states.Snapshot:
        return self.simulated.daemons[self.simulated.leader].store.snapshot

    def do(self, op: str, /, **arguments: object) -> object:
        self.become("root")
        return self.simulated.run(self.simulated.done({"OP_ID": op, **arguments}))

    def become(self, user: str, *groups: str) -> None:
        """Make all further peers of LUXI processes of a user; "root" is root again."""
        network = self.simulated.master.network
        self._patch.setattr(network, "is_privileged", lambda writer: user == "root")
        self._patch.setattr(network, "is_member", lambda writer, group: "gantry-admin" in groups)
        self._patch.setattr(network, "peer_user", lambda writer: user)
        self._patch.setattr(network, "peer_groups", lambda writer: groups)

    def rule(self, *roles: tuple[str, str], who: str = "user:bob") -> None:
        """Make these the only rules besides those of the beginning."""
        self.become("root")
        rules = [rule for uuid, rule in self.state.accessrules.items() if uuid not in self.first_rules]
        for name in {rule.who for rule in rules}:
            self.do("OP_ACCESS_REMOVE", who=name)
        for role, on in roles:
            self.do("OP_ACCESS_ADD", who=who, role=role, on=on)

    def luxi(self, method: str, *arguments: object, user: str = "bob") -> tuple[bool, object]:
        """Call LUXI as a user of the group gantry; return success and result."""
        self.become(user, "gantry")
        return self.ask(talk.request(method, *arguments))

    def ask(self, message: bytes) -> tuple[bool, object]:
        """Send a message as the present user; return success and result."""
        return self.simulated.run(self._call(message))

    async def _call(self, message: bytes) -> tuple[bool, object]:
        network = self.simulated.master.network
        reader, writer = await network.connect_unix(cluster.FOLDERS.luxi_socket, limit=1 << 26)
        writer.write(message)
        answer = json.loads((await reader.readuntil(talk.ETX))[:-1])
        writer.close()
        return bool(answer["success"]), answer["result"]

    def result(self, method: str, *arguments: object, user: str = "bob") -> object:
        is_done, result = self.luxi(method, *arguments, user=user)
        assert is_done, result
        return result

    def names(self, what: str, *, user: str = "bob") -> list[object]:
        result = self.result("Query", what, ["name"], None, user=user)
        assert isinstance(result, dict)
        return [row[0][1] for row in result["data"]]

    def http(self, user: str, method: str, path: str, body: object = None) -> http_interface.Response:
        self.become("gantry-rapi", "gantry-admin")
        login = base64.b64encode(f"{user}:{PASSWORDS[user]}".encode()).decode()
        headers = {"content-type": "application/json", "authorization": f"Basic {login}"}
        content = b"" if body is None else msgspec.json.encode(body)
        return self.simulated.run(self.server.answer(http_interface.Request(method, path, content, headers)))

    def json(self, user: str, path: str) -> object:
        response = self.http(user, "GET", path)
        assert response.status == 200, response.body
        return json.loads(response.body)


@pytest.fixture(scope="module")
def lab() -> Iterator[RuledCluster]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=7, nodes=3) as simulated:
        simulated.run(simulated.build())
        here = RuledCluster(simulated, patch)
        yield here
        here.become("root")


def seen_by(state: states.Snapshot, subject: access.Subject) -> set[str]:
    """Return the UUIDs of instances, nodes, node groups and networks that a subject sees, by the decision alone."""

    def decides(right: access.Right, keys: Sequence[str]) -> bool:
        need = access.Need(right, "", tuple(keys), "")
        token = access_rules.token_of(state, subject)
        return access.decide(access_rules.finder(state), subject, need, token=token).is_allowed

    view, view_network = access.Right.VIEW, access.Right.VIEW_NETWORK
    vms = [vm for vm in state.instances.values() if decides(view, scopes.of_instance(state, vm))]
    groups = {group.uuid for group in state.nodegroups.values() if decides(view, scopes.of_group(group))}
    nodes = {uuid for vm in vms for uuid in vm.nodes} | {
        node.uuid for node in state.nodes.values() if node.group in groups
    }
    nets = {net.uuid for net in state.networks.values() if decides(view_network, scopes.of_network(net))}
    ports = {port.uuid for port in state.ports.values() if port.network in nets}
    nets |= {nic.network for vm in vms for nic in vm.nics} | {use.network for vm in vms for use in vm.lingering}
    return {vm.uuid for vm in vms} | groups | {state.nodes[uuid].group for uuid in nodes} | nodes | nets | ports


def hidden_texts(state: states.Snapshot, seen: set[str]) -> dict[str, str]:
    """Return what identifies invisible objects, each with the kind of text that it is (``UNKNOWN``)."""
    texts: dict[str, str] = {"vm-fir": "name", "198.18.1.61": "address", "pool-ivy": "name"}
    for vm in state.instances.values():
        if vm.uuid not in seen:
            texts |= {vm.name: "name", vm.uuid: "uuid"}
            texts |= {nic.mac: "mac" for nic in vm.nics} | {nic.uuid: "uuid" for nic in vm.nics}
            texts |= {ip: "address" for nic in vm.nics for ip in nic.ip}
    for port in state.ports.values():
        if port.uuid not in seen:
            texts |= {port.name: "name", port.uuid: "uuid", port.mac: "mac", port.ip[0]: "address"}
    for net in state.networks.values():
        if net.uuid not in seen:
            texts |= {net.name: "name", net.uuid: "uuid", net.subnets[0].uuid: "uuid"}
    for node in state.nodes.values():
        if node.uuid not in seen:
            texts |= {node.name: "name", node.uuid: "uuid", node.primary_ip: "address"}
    for group in state.nodegroups.values():
        if group.uuid not in seen and group.name != "default":
            texts |= {group.name: "name", group.uuid: "uuid"}
    rules = {rule.uuid: "uuid" for rule in state.accessrules.values() if rule.who == "user:carol"}
    pools = {pool.uuid: "uuid" for pool in state.subnetpools.values()}
    return texts | rules | pools


def questions(state: states.Snapshot) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield calls that read, each of what is there without naming anything."""
    for what in sorted(engine.GETTERS):
        names = [field.name for field in fields.REGISTRY[what].values()]
        yield "Query", (what, names, None)
        yield "Query", (what, names, ["!", ["=", "uuid" if "uuid" in names else names[0], "x"]])
    yield "QueryJobs", (None, ["id", "summary", "ops", "oplog", "opresult", "user"])
    yield "QueryJobs", ([*range(1, state.last_job + 1)], ["id", "summary", "ops", "oplog", "opresult"])
    for method in ("QueryNodes", "QueryInstances", "QueryGroups", "QueryNetworks"):
        yield method, ([], ["name", "uuid", "tags"], False)
    yield "QueryExports", ([], False)
    yield "QueryClusterInfo", ()
    yield "QueryConfigValues", (["cluster_name", "master_node"],)
    yield "QueryOwnAccess", ()
    yield "ReadOpcode", ({"OP_ID": "OP_TAGS_SEARCH", "pattern": "."},)
    yield "ReadOpcode", ({"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": []},)
    yield "ReadOpcode", ({"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["name", "node_status"]},)
    yield "ReadOpcode", ({"OP_ID": "OP_NODE_QUERYVOLS", "output_fields": ["node"], "nodes": []},)
    for kind in (None, "instance", "network", "node", "group", "port", "job", "access", "subnetpool"):
        yield "QueryHistory", (kind, None, None, None, 10_000)
    yield "WaitForEvents", (0, 1000, 0)
    for text in ("0.0.0.0/0", *(f"{prefix}.0/24" for prefix in NETWORKS.values())):
        yield "QueryAddress", (text, None, False, 1000)
        yield "QueryAddress", (text, None, True, 1000)
        yield "QueryAddress", (text, 10.0**10, False, 1000)
    for typed in ("vm-aple", "node", "lan-agua", "groop2", "vm-fi"):
        for what in ("instance", "node", "group", "network"):
            yield "QuerySimilarNames", (what, typed)
    for method in ("ExportConfig", "QueryPackages", "QueryMeasures", "QueryUsage"):
        yield method, ()
    yield "QueryAudit", ({},)
    yield "ExplainAccess", (["user:carol"], "cluster")
    yield "QueryTags", ("cluster", "")


def questions_about(text: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield calls that name something: their answers are those about something that does not exist."""
    for what in ("instance", "node", "group", "network", "port", "subnet"):
        for field in ("name", "uuid"):
            yield "Query", (what, ["uuid"], ["=", field, text])
    yield "Query", ("instance", ["uuid"], ["=[]", "nic.ips", text])
    yield "Query", ("port", ["uuid"], ["=", "mac", text])
    yield "Query", ("port", ["uuid"], ["=", "network_uuid", text])
    for method in ("QueryNodes", "QueryInstances", "QueryGroups", "QueryNetworks"):
        yield method, ([text], ["name"], False)
    for kind in ("node", "instance", "network", "nodegroup"):
        yield "QueryTags", (kind, text)
    for kind in ("instance", "node"):
        yield "QueryUsageHistory", (kind, text, 0)
    yield "QueryAddress", (text, None, False, 10)
    yield "QueryAddress", (text, None, True, 10)
    yield "QueryNetworkHistory", (text, None, None, 10)
    yield "QueryHistory", (None, text, None, None, 10)
    yield "ReadOpcode", ({"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [text]},)
    yield "ReadOpcode", ({"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": text},)
    yield "OpenConsole", (text, "serial", "bob")
    for on in ("instance", "network", "group"):
        yield "ExplainAccess", (["user:bob"], f"{on}:{text}")
    yield "SubmitJob", ([{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": text}],)
    yield "SubmitJob", ([{"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [text]}],)
    yield "SubmitJob", ([{"OP_ID": "OP_NETWORK_REMOVE", "network_name": text}],)
    yield "SubmitJob", ([{"OP_ID": "OP_NODE_EVACUATE", "node_name": text, "mode": "all"}],)
    yield "SubmitJob", ([{"OP_ID": "OP_TAGS_SET", "kind": "network", "name": text, "tags": ["x"]}],)
    yield "SubmitJob", ([{"OP_ID": "OP_PORT_REMOVE", "port": text}],)
    token = {"OP_ID": "OP_TOKEN_ADD", "user": "bob", "name": "x", "id": "0" * 10, "secret_hash": "0" * 64}
    for on in ("instance", "network", "group"):
        roles = [{"role": "viewer", "on": f"{on}:{text}"}]
        yield "SubmitJob", ([{**token, "extent": "roles", "roles": roles}],)
    yield "RunJob", ([talk.DELAY], 1, [["instance", ["=", "name", text]]])


def is_in(text: str, answer: str) -> bool:
    return re.search(rf"(?<![\w.:-]){re.escape(text)}(?![\w:-]|\.\w)", answer) is not None


def _scopes(net: str) -> list[str]:
    """Return the objects of rules that contain a network."""
    return ["cluster", f"network:{net}", *(["tag:west"] if net == "lan-cyan" else [])]


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.lists(st.sampled_from(ROLES), max_size=3, unique=True), st.randoms(use_true_random=False))
def test_no_answer_names_or_hints_at_an_invisible_object(
    lab: RuledCluster, roles: list[tuple[str, str]], chance: random.Random
) -> None:
    lab.rule(*roles)
    state, hidden = lab.state, hidden_texts(lab.state, seen_by(lab.state, BOB))
    # Which addresses of a network are in use is a part of the network.
    whole = {prefix for name, prefix in NETWORKS.items() if any(on in _scopes(name) for _, on in roles)}
    hidden = {text: kind for text, kind in hidden.items() if text.rpartition(".")[0] not in whole}
    if ("network-admin", "cluster") in roles:
        hidden = {text: kind for text, kind in hidden.items() if text not in {"pool-ivy", *state.subnetpools}}
    if not {("viewer", "cluster"), ("operator", "cluster")}.isdisjoint(roles):
        hidden = {}
    for method, arguments in questions(state):
        answer = json.dumps(lab.luxi(method, *arguments)[1])
        leaks = [text for text in hidden if is_in(text, answer)]
        assert not leaks, (method, arguments, leaks, answer)
    for text in chance.sample(sorted(hidden), min(3, len(hidden))):
        unknown = UNKNOWN[hidden[text]]
        for (method, arguments), (_, unknown_ones) in zip(questions_about(text), questions_about(unknown), strict=True):
            answers = [json.dumps(lab.luxi(method, *each)) for each in (arguments, unknown_ones)]
            assert answers[0].replace(text, "X") == answers[1].replace(unknown, "X"), (method, arguments)


def test_lists_and_counts_have_visible_objects_and_what_these_use(lab: RuledCluster) -> None:
    lab.rule(("viewer", "tag:shop"))
    assert lab.names("instance") == ["vm-apple", "vm-birch"]
    assert lab.names("node") == ["node1", "node2"]
    assert lab.names("group") == ["default", "group2"]
    assert lab.names("network") == ["lan-aqua"]
    columns = ["name", "pinst_cnt", "pinst_list", "mfree"]
    result = msgspec.convert(lab.result("Query", "node", columns, None), dict[str, object])
    # How much memory a node has free says what others use.
    assert result["data"] == [
        [[0, "node1"], [0, 1], [0, ["vm-apple"]], [3, None]],
        [[0, "node2"], [0, 1], [0, ["vm-birch"]], [3, None]],
    ]
    columns = ["name", "inst_list", "used_count", "pools", "quarantined_count", "external_reservations"]
    result = msgspec.convert(lab.result("Query", "network", columns, None), dict[str, object])
    assert result["data"] == [[[0, "lan-aqua"], [0, ["vm-apple", "vm-birch"]], [0, 2], [0, []], [0, 0], [3, None]]]
    for what in ("access", "token", "lock", "export", "subnetpool", "port", "job"):
        result = msgspec.convert(lab.result("Query", what, ["uuid"], None), dict[str, object])
        # The ports are the NICs of visible instances.
        expected = {"access": 1, "port": 2}.get(what, 0)
        assert len(msgspec.convert(result["data"], list[object])) == expected, what


def test_a_network_that_is_seen_whole_says_which_addresses_are_in_use_but_not_by_whom(lab: RuledCluster) -> None:
    lab.rule(("viewer", "network:lan-blue"))
    assert (lab.names("network"), lab.names("instance"), lab.names("node")) == (["lan-blue"], [], [])
    assert lab.names("port") == ["port-holly"]
    answer = msgspec.convert(lab.result("QueryAddress", "198.18.1.0/24", None, False, 100), dict[str, object])
    rows = msgspec.convert(answer["rows"], list[dict[str, object]])
    states_of = {str(row["address"]): (row["state"], row["owner"], row["mac"]) for row in rows}
    assert states_of["198.18.1.60"] == states_of["198.18.1.61"] == ("in use", "", "")
    assert states_of["198.18.1.77"][:2] == ("in use", "port-holly")
    assert states_of["198.18.1.1"] == ("gateway", "", "")
    result = msgspec.convert(lab.result("Query", "network", ["quarantine", "used_count"], None), dict[str, object])
    assert result["data"] == [[[0, []], [0, 1]]]


def test_everybody_who_reads_sees_everything_without_the_setting(lab: RuledCluster) -> None:
    lab.rule()
    assert lab.names("instance") == []
    lab.do("OP_CLUSTER_SET_PARAMS", reading="all")
    assert lab.names("instance") == sorted(INSTANCES)
    assert lab.names("export") == []
    lab.do("OP_CLUSTER_SET_PARAMS", reading="rules")
    assert lab.names("instance") == []


def test_a_viewer_of_the_cluster_reads_as_administrators_do_and_changes_nothing(lab: RuledCluster) -> None:
    lab.rule(("viewer", "cluster"))
    assert lab.names("instance") == lab.names("instance", user="root") == sorted(INSTANCES)
    for method in ("ExportConfig", "QueryMeasures", "QueryPackages"):
        lab.result(method)
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm-apple"}
    is_done, result = lab.luxi("SubmitJob", [stop])
    assert not is_done
    assert "may not operate instance vm-apple" in str(result)


def test_a_method_that_is_in_no_table_is_refused(lab: RuledCluster) -> None:
    assert METHODS.keys() >= reading.VIEWED | reading.WHOLE
    lab.rule(("operator", "instance:vm-apple"))
    for method in sorted(METHODS.keys() - reading.VIEWED - reading.WHOLE):
        is_done, result = lab.luxi(method, *talk.METHODS[method])
        assert (is_done, msgspec.convert(result, tuple[str, tuple[str, str]])[1][1]) == (False, "forbidden"), method


def test_users_see_their_own_jobs_alone(lab: RuledCluster) -> None:
    lab.rule(("operator", "instance:vm-apple"))
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm-apple"}
    number = lab.result("SubmitJob", [stop])
    assert lab.result("QueryJobs", None, ["id"]) == [[number]]
    waited = lab.result("WaitForJobChange", number, ["summary"], None, None, 1)
    assert isinstance(waited, list)
    assert waited[0] == ["INSTANCE_SHUTDOWN(vm-apple)"]
    (first, *_) = lab.state.jobs.values()
    for method, more in (("WaitForJobChange", (["status"], None, None, 1)), ("CancelJob", ()), ("ArchiveJob", ())):
        refusals = [lab.luxi(method, each, *more) for each in (first.id, 99_999)]
        assert not refusals[0][0]
        assert str(refusals[0][1]).replace(str(first.id), "X") == str(refusals[1][1]).replace("99999", "X")


def test_events_without_a_visible_change_are_left_out_and_causes_of_jobs_of_others_too(lab: RuledCluster) -> None:
    lab.rule(("viewer", "instance:vm-elder"))
    last = lab.state.serial
    lab.do("OP_TAGS_SET", kind="instance", name="vm-cedar", tags=["t1"])
    lab.do("OP_TAGS_SET", kind="instance", name="vm-elder", tags=["t2"], reason=[["gnt:user", "for order 17", 1]])
    for method, arguments in (("WaitForEvents", (last, 100, 0)), ("QueryHistory", (None, None, last + 1, None, 100))):
        answer = msgspec.convert(lab.result(method, *arguments), dict[str, object])
        (event,) = msgspec.convert(answer["events"], list[dict[str, object]])
        changes = msgspec.convert(event["changes"], list[dict[str, str]])
        assert [(each["kind"], each["name"]) for each in changes] == [("instance", "vm-elder")]
        assert event["cause"] == {"opcode": "OP_TAGS_SET"}
        assert answer["serial"] == lab.state.serial


@pytest.mark.parametrize(
    ("address", "owners"),
    [
        (None, {("198.18.1.22", "vm-cedar"), ("198.18.1.60", "vm-cedar")}),
        ("198.18.1.60", {("198.18.1.60", "vm-cedar")}),
        ("198.18.1.24", set()),  # another's
        ("198.18.1.99", set()),
    ],
)
def test_the_past_of_a_network_has_the_addresses_of_visible_owners(
    lab: RuledCluster, address: str | None, owners: set[tuple[str, str]]
) -> None:
    lab.rule(("viewer", "instance:vm-cedar"))
    past = msgspec.convert(lab.result("QueryNetworkHistory", "lan-blue", address, None, 100), dict[str, object])
    rows = msgspec.convert(past["rows"], list[dict[str, object]])
    assert {(row["address"], row["instance"]) for row in rows} == owners
    assert {row["job"] for row in rows} <= {None}, "jobs of others"
    whole = lab.result("QueryNetworkHistory", "lan-blue", address, None, 100, user="root")
    rows = msgspec.convert(msgspec.convert(whole, dict[str, object])["rows"], list[dict[str, object]])
    assert {str(row["job"]) for row in rows} <= {*lab.state.jobs}


def test_a_lock_is_visible_to_who_sees_everything(lab: RuledCluster) -> None:
    lab.rule(("operator", "instance:vm-elder"))
    lab.become("root")
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 50, "on_nodes": ["node3"]}
    number = lab.simulated.run(lab.simulated.submit(op))
    lab.simulated.run(lab.simulated.master.clock.sleep(1))
    assert "node/" in json.dumps(lab.result("Query", "lock", ["name", "owner"], None, user="root"))
    result = msgspec.convert(lab.result("Query", "lock", ["name", "owner"], None), dict[str, object])
    assert result["data"] == []
    lab.become("root")
    lab.simulated.run(lab.simulated.wait(number))


def test_what_a_node_uses_is_visible_to_who_sees_it_whole(lab: RuledCluster) -> None:
    lab.rule(("viewer", "instance:vm-elder"), ("viewer", "group:group2"))
    assert lab.luxi("QueryUsageHistory", "node", "node2", 0)[0]
    is_done, result = lab.luxi("QueryUsageHistory", "node", "node3", 0)
    assert not is_done
    assert "is visible to users with a role on its node group" in str(result)
    # Simulated nodes measure nothing, so the filter of their answers is called with the names of these.
    services = cast("Services", types.SimpleNamespace(view=lambda: views.Views().of(lab.state, BOB)))
    named = [
        (node.name, name)
        for node in sorted(lab.state.nodes.values(), key=lambda node: node.name)
        for name in ("", *INSTANCES)
        if usage._is_visible(services, node.uuid, name)
    ]
    assert [node for node, name in named if not name] == ["node2"]
    assert {name for _, name in named} == {"", "vm-birch", "vm-cedar", "vm-elder"}


def test_the_result_of_a_job_does_not_name_the_owner_of_an_address(lab: RuledCluster) -> None:
    lab.rule(("admin", "group:group3"), ("operator", "network:lan-blue"))
    create = {
        "OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm-own", "pnode": "node3", "disk_template": "diskless",
        "nics": [{"network": "lan-blue", "ip": "198.18.1.60"}], "no_install": True,
    }  # fmt: skip
    number, status, results = msgspec.convert(lab.result("RunJob", [create], 600), tuple[int, str, list[object]])
    assert status == "error"
    for text in (json.dumps(results), json.dumps(lab.result("QueryJobs", [number], ["opresult", "oplog"]))):
        assert "address 198.18.1.60" in text
        assert views.HIDDEN in text
        assert "vm-cedar" not in text
    whole = json.dumps(lab.result("QueryJobs", [number], ["opresult"], user="root"))
    assert "vm-cedar" in whole


def test_a_request_about_more_than_its_user_sees_is_refused_without_names(lab: RuledCluster) -> None:
    lab.rule(("admin", "group:group2"))
    lab.rule(("admin", "group:group2"), ("operator", "network:lan-aqua"))
    evacuate = {"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "instance_name": "vm-birch", "target_groups": []}
    is_done, result = lab.luxi("SubmitJob", [evacuate])
    assert not is_done
    assert "about all that it concerns" in str(result)
    assert not {"group3", "node3", "default"} & {*re.findall(r"\w+", str(result))}


def test_the_remote_api_lists_what_its_user_sees(lab: RuledCluster) -> None:
    lab.rule(("viewer", "instance:vm-dogwood"))
    assert lab.json("bob", "/2/instances") == [{"id": "vm-dogwood", "uri": "/2/instances/vm-dogwood"}]
    assert len(msgspec.convert(lab.json("alice", "/2/instances"), list[object])) == len(INSTANCES)
    assert lab.json("bob", "/2/jobs") == []
    answers = [lab.http("bob", "GET", f"/2/instances/{name}") for name in ("vm-apple", "vm-zzz")]
    assert [each.status for each in answers] == [404, 404]
    assert answers[0].body.replace(b"vm-apple", b"X") == answers[1].body.replace(b"vm-zzz", b"X")
    info = msgspec.convert(lab.json("bob", "/2/info"), dict[str, object])
    assert (info["master"], info["name"]) == (None, "lab.example")
    metrics = lab.http("bob", "GET", "/metrics").body.decode()
    assert 'gantry_instances{node="node3",status="running"} 1.0' in metrics
    assert not re.search("node1|node2|vm-apple|luxi_request|node_up{", metrics)
    assert "node1" in lab.http("alice", "GET", "/metrics").body.decode()


def test_an_object_that_becomes_invisible_leaves_an_open_stream(lab: RuledCluster) -> None:
    lab.rule(("viewer", "instance:vm-elder"))

    async def scenario() -> list[str]:
        login = base64.b64encode(b"bob:two").decode()
        request = http_interface.Request("GET", "/2/events", b"", {"authorization": f"Basic {login}"})
        lab.become("gantry-rapi", "gantry-admin")
        answer = await lab.server.answer(request)
        assert answer.pieces
        messages: list[str] = []

        async def read_until(text: str) -> None:
            while not (messages and text in messages[-1]):
                messages.append((await anext(pieces)).decode())

        async def tag(name: str, tags: str) -> None:
            op = {"OP_ID": "OP_TAGS_SET", "kind": "instance", "name": name, "tags": [tags]}
            await lab.simulated.done(op)

        pieces = answer.pieces
        await read_until("begin")
        await tag("vm-cedar", "hidden1")
        await tag("vm-elder", "seen1")
        await read_until("vm-elder")
        await lab.simulated.done({"OP_ID": "OP_ACCESS_REMOVE", "who": "user:bob"})
        await read_until("event: lost")
        await tag("vm-elder", "hidden2")
        await lab.simulated.done({"OP_ID": "OP_ACCESS_ADD", "who": "user:bob", "role": "viewer", "on": "tag:web"})
        await read_until("event: lost")
        await tag("vm-elder", "seen3")
        await read_until("vm-elder")
        await pieces.aclose()
        return messages

    text = "".join(lab.simulated.run(scenario()))
    assert "vm-cedar" not in text
    assert text.count('"name":"vm-elder"') == 2
    assert text.count("event: lost") == 2


def test_a_user_who_comes_back_reads_the_state_again_and_gets_each_visible_event_once(lab: RuledCluster) -> None:
    lab.rule(("viewer", "instance:vm-elder"))
    server = remote.server(lab.simulated.master, cluster.FOLDERS)

    async def stream(login: bytes, query: str = "") -> AsyncGenerator[bytes, None]:
        headers = {"authorization": f"Basic {base64.b64encode(login).decode()}"}
        answer = await server.answer(http_interface.Request("GET", f"/2/events{query}", b"", headers))
        assert answer.pieces
        return answer.pieces

    async def tag(name: str, tags: str) -> int:
        await lab.simulated.done({"OP_ID": "OP_TAGS_SET", "kind": "instance", "name": name, "tags": [tags]})
        return lab.state.serial

    async def read(pieces: AsyncGenerator[bytes, None], number: int) -> list[str]:
        """Return the first lines of messages, and the ids of changes."""
        lines: list[str] = []
        while len(lines) < number:
            for message in (await anext(pieces)).decode().split("\n\n")[:-1]:
                if message != ":":
                    kind, more, *_ = message.split("\n")
                    lines.append(more if kind == "event: change" else kind)
        return lines

    async def scenario() -> None:
        lab.become("gantry-rapi", "gantry-admin")
        # While somebody follows the events, the feed keeps them.
        first = await stream(b"alice:one")
        assert await read(first, 1) == ["event: begin"]
        begin = lab.state.serial
        await tag("vm-elder", "again1")
        await tag("vm-cedar", "again2")
        after = await tag("vm-elder", "again3")
        everything = [f"id: {serial}" for serial in range(begin + 1, after + 1)]
        assert await read(first, after - begin) == everything
        back = await stream(b"bob:two", f"?after={begin}")
        begun = await read(back, 4)
        assert begun[:2] == ["event: begin", "event: lost"]
        assert begun[2] in everything
        assert begun[3] in everything
        last = await tag("vm-elder", "again4")
        (later,) = await read(back, 1)
        assert after < int(later.removeprefix("id: ")) <= last
        assert int(begun[2].removeprefix("id: ")) < int(begun[3].removeprefix("id: "))
        await back.aclose()
        await first.aclose()

    lab.simulated.run(scenario())


def test_an_opcode_that_reads_is_answered_with_visible_objects_or_refused(lab: RuledCluster) -> None:
    lab.rule(("viewer", "tag:shop"))
    search = {"OP_ID": "OP_TAGS_SEARCH", "pattern": "^(shop|billing|web|west)$"}
    paths, warnings = msgspec.convert(lab.result("ReadOpcode", search), tuple[list[tuple[str, str]], list[str]])
    visible = {("/instances/vm-apple", "shop"), ("/instances/vm-birch", "shop"), ("/instances/vm-birch", "billing")}
    assert ({*paths}, warnings) == (visible, [])
    whole = msgspec.convert(lab.result("ReadOpcode", search, user="root"), tuple[list[tuple[str, str]], list[str]])[0]
    assert {*whole} > visible
    query = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [], "static": True}
    described, _ = msgspec.convert(lab.result("ReadOpcode", query), tuple[dict[str, object], list[str]])
    assert {*described} == {"vm-apple", "vm-birch"}
    volumes = {"OP_ID": "OP_NODE_QUERYVOLS", "output_fields": ["node"], "nodes": []}
    is_done, result = lab.luxi("ReadOpcode", volumes)
    assert (is_done, result) == (
        False,
        [
            "OpPrereqError",
            [
                "OP_NODE_QUERYVOLS reads more than the access rules let you see; an administrator can allow it: "
                "gnt-cluster access add USER viewer cluster",
                "forbidden",
            ],
        ],
    )
    assert lab.luxi("ReadOpcode", volumes, user="root")[0]


def test_users_find_their_own_archived_jobs_alone(lab: RuledCluster) -> None:
    lab.rule(("operator", "instance:vm-apple"))
    own = lab.result("SubmitJob", [{"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "vm-apple"}])
    lab.become("root")
    another = lab.simulated.run(lab.simulated.submit({**talk.DELAY, "on_master": True, "on_nodes": []}))
    assert isinstance(own, int)
    for number in (own, another):
        lab.simulated.run(lab.simulated.wait(number))
        assert lab.result("ArchiveJob", number, user="root") is True
    lab.simulated.run(lab.simulated.master.clock.sleep(5))
    fields = ["id", "status", "archived"]
    assert lab.result("QueryJobs", [own, another], fields) == [[own, "success", True], [another, None, None]]
    assert lab.result("QueryJobs", [another], fields, user="root") == [[another, "success", True]]


def test_the_rules_of_others_are_explained_to_who_sees_everything(lab: RuledCluster) -> None:
    lab.rule(("operator", "instance:vm-apple"))
    own, more = (["user:bob"], "instance:vm-apple"), (["user:bob", "user:carol"], "instance:vm-apple")
    assert lab.luxi("ExplainAccess", *own)[0]
    is_done, result = lab.luxi("ExplainAccess", *more)
    text = "the rules of other users and groups can be explained only to who sees the whole cluster"
    assert (is_done, result) == (
        False, ["OpPrereqError", [f"{text}; ask about your own user and groups", "forbidden"]],
    )  # fmt: skip
    assert lab.luxi("ExplainAccess", *more, user="root")[0]
    lab.rule(("viewer", "cluster"))
    assert lab.luxi("ExplainAccess", *more)[0]


def test_tokens_narrow_what_their_user_sees(lab: RuledCluster) -> None:
    lab.rule(("viewer", "tag:shop"))
    for number, (user, extent, roles) in enumerate(
        (
            ("alice", "read", []),
            ("alice", "roles", [{"role": "viewer", "on": "instance:vm-elder"}]),
            ("bob", "roles", [{"role": "operator", "on": "tag:billing"}]),
        )
    ):
        text = token_text.make(user, number=bytes([number]) * 8, secret=b"s" * 32)
        token = {"id": token_text.identifier(text), "secret_hash": token_text.secret_hash(text), "name": f"t{number}"}
        lab.do("OP_TOKEN_ADD", user=user, **token, extent=extent, roles=roles)
    names = []
    for name, is_admin in (("alice:t0", True), ("alice:t1", True), ("bob:t2", False)):
        named = {"name": name[:-3], "write": is_admin, "token": lab.state.names["apitokens", name]}
        lab.become("gantry-rapi", "gantry-admin")
        message = {"method": "Query", "args": ["instance", ["name"], None], "user": named}
        result = msgspec.convert(lab.ask(json.dumps(message).encode() + talk.ETX)[1], dict[str, list[object]])
        names.append([row[0][1] for row in msgspec.convert(result["data"], list[list[list[object]]])])
    assert names == [sorted(INSTANCES), ["vm-elder"], ["vm-birch"]]
