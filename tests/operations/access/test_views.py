"""What a subject sees of a state: the same as the decision says, as a state of its own, kept while nothing changes."""

from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import access, cluster, cluster_settings, instance, job, network, opcodes
from gantry.model.access import Right, Role, Scope
from gantry.operations.access import check, scopes, sight, views
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states

BOB = access.Subject(user="bob", groups=("ops",))
OWNER = structs.replace(build.OWNER, reading=cluster_settings.Reading.RULES.value)
FAR_GROUP = cluster.NodeGroup(uuid="g2", name="far", networks={"far-net": cluster.Connection(mode="routed", link="x")})
FAR_NODE = cluster.Node(uuid="n9", name="node9", primary_ip="203.0.113.9", group="g2")
FAR_NET = network.Network(uuid="far-net", name="farnet", tags=("red",), project="shop")
PORT = network.Port(uuid="p1", name="vip", network="net", mac="aa:00:00:00:00:77", device_id="i9")


def vm(
    name: str,
    uuid: str,
    *,
    node: str = "n1",
    nets: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    project: str = "",
) -> instance.Instance:
    port = instance.PortDetails(project=project) if project else None
    nics = tuple(
        instance.Nic(uuid=f"{uuid}-{net}", mac=f"aa:00:00:00:{uuid[1:]:0>2}:{n:02}", network=net, port=port)
        for n, net in enumerate(nets)
    )
    return structs.replace(build.VM, uuid=uuid, name=name, primary_node=node, nics=nics, tags=tags, disks=())


VMS = (
    vm("web.a", "i5", nets=("net",), tags=("red",), project="shop"),
    vm("web.b", "i6", node="n2", tags=("blue",)),
    vm("db", "i7", node="n9", nets=("far-net", "net"), tags=("red",)),
    vm("db.far", "i9", node="n9"),
)
OBJECTS = {
    Scope.CLUSTER: ("",),
    Scope.GROUP: ("g", "g2"),
    Scope.TAG: ("red", "blue", "none"),
    Scope.PROJECT: ("shop", "red"),
    Scope.INSTANCE: ("i5", "i6", "i7", "i9"),
    Scope.NETWORK: ("net", "far-net", "spare"),
}


@st.composite
def rules(draw: st.DrawFn) -> access.Rule:
    role = draw(st.sampled_from(Role))
    scope = draw(st.sampled_from(access.SCOPES[role]))
    who = draw(st.sampled_from(["user:bob", "group:ops", "user:carol"]))
    uuid, name = draw(st.uuids().map(str)), draw(st.sampled_from(OBJECTS[scope]))
    return access.Rule(uuid=uuid, name=who, role=role, scope=scope, object=name)


RULES = st.lists(rules(), max_size=5, unique_by=lambda rule: rule.uuid)
TOKENS = st.builds(
    access.Token,
    uuid=st.just("t1"),
    name=st.just("bob:ci"),
    id=st.just("0" * 10),
    secret_hash=st.just(""),
    extent=st.sampled_from(access.Extent),
    roles=RULES.map(
        lambda drawn_rules: tuple(access.RoleOn(role=r.role, scope=r.scope, object=r.object) for r in drawn_rules)
    ),
)


def state(*values: states.Stored) -> states.Snapshot:
    first = [value for value in build.FIRST if not isinstance(value, cluster.Cluster)]
    known: list[states.Stored] = [OWNER, *first, FAR_GROUP, FAR_NODE, FAR_NET, PORT, *VMS, *values]
    return states.Snapshot().apply(map(states.Put, known), serial=1)


def rule(role: Role, scope: Scope, name: str = "", *, who: str = "user:bob", uuid: str = "r1") -> access.Rule:
    return access.Rule(uuid=uuid, name=who, role=role, scope=scope, object=name)


def view(snapshot: states.Snapshot, subject: access.Subject = BOB) -> views.View:
    part = views.Views().of(snapshot, subject)
    assert part
    return part


@given(RULES, st.none() | TOKENS, st.booleans())
def test_a_view_has_exactly_what_the_decision_allows_and_what_that_uses(
    drawn_rules: list[access.Rule], token: access.Token | None, is_admin: bool
) -> None:
    snapshot = state(*drawn_rules, *([token] if token else []))
    use = access.TokenUse("t1", "ci", is_admin=is_admin) if token else None
    subject = structs.replace(BOB, token=use, door="rapi")

    def decides(right: Right, keys: tuple[str, ...]) -> bool:
        need = access.Need(right, "", keys, "")
        return access.decide(access_rules.finder(snapshot), subject, need, token=token).is_allowed

    part = views.Views().of(snapshot, subject)
    if part is None:
        assert all(decides(right, (access.CLUSTER_KEY,)) for right in access.READING)
        return
    seen = {
        each.uuid: each
        for each in snapshot.instances.values()
        if decides(Right.VIEW, scopes.of_instance(snapshot, each))
    }
    whole = {net.uuid for net in snapshot.networks.values() if decides(Right.VIEW_NETWORK, scopes.of_network(net))}
    groups = {group.uuid for group in snapshot.nodegroups.values() if decides(Right.VIEW, scopes.of_group(group))}
    nodes = {node for each in seen.values() for node in each.nodes}
    nodes |= {node.uuid for node in snapshot.nodes.values() if node.group in groups}
    assert dict(part.state.instances) == seen
    assert {*part.state.nodes} == nodes
    assert {*part.state.nodegroups} == groups | {snapshot.nodes[node].group for node in nodes}
    assert {*part.state.networks} == whole | {nic.network for each in seen.values() for nic in each.nics}
    assert part.networks == whole
    assert {*part.state.ports} == {port.uuid for port in snapshot.ports.values() if port.network in whole}
    assert part.sight.named().nodes == snapshot.nodes
    for kind in ("instances", "nodes", "nodegroups", "networks", "ports"):
        for key in snapshot.collection(kind):
            assert part.sight.sees(kind, key) is part.has(kind, key)


@given(RULES, RULES)
def test_a_view_that_follows_a_change_is_the_view_of_the_new_state(
    before: list[access.Rule], after: list[access.Rule]
) -> None:
    known = views.Views()
    known.of(state(*before), BOB)
    changed = state(*after).apply([states.Put(structs.replace(VMS[0], tags=("blue",)))], serial=2)
    followed, fresh = known.of(changed, BOB), views.Views().of(changed, BOB)
    assert (followed is None) == (fresh is None)
    if followed and fresh:
        assert followed.mark == fresh.mark
        assert vars(followed.state) == vars(fresh.state)


def test_a_view_is_kept_while_only_jobs_change() -> None:
    first = state(rule(Role.VIEWER, Scope.GROUP, "g"))
    known = views.Views()
    before = known.of(first, BOB)
    op = opcodes.TestDelay(duration=0)
    own, foreign = (job.Job(id=n, ops=(job.Step(input=op),), submitter=who) for n, who in ((4, BOB), (5, None)))
    after = known.of(first.apply([states.Put(own), states.Put(foreign)], serial=2), BOB)
    assert before
    assert after
    assert after.state.instances is before.state.instances
    assert {*after.state.jobs} == {"4"}


def test_a_network_that_is_only_used_has_no_pools_and_a_group_no_other_networks() -> None:
    snapshot = state(rule(Role.VIEWER, Scope.INSTANCE, "i5"))
    part = view(snapshot)
    assert snapshot.networks["net"].subnets[0].pools
    assert [subnet.pools for subnet in part.state.networks["net"].subnets] == [(), ()]
    part = view(state(rule(Role.VIEWER, Scope.INSTANCE, "i9")))
    assert part.state.nodegroups["g2"].networks == {}
    part = view(state(rule(Role.VIEWER, Scope.NETWORK, "net")))
    assert part.state.ports["p1"].device_id == ""


def test_a_removed_object_is_remembered_and_an_invisible_one_is_not() -> None:
    known, first = views.Views(), state(rule(Role.VIEWER, Scope.TAG, "red"))
    known.of(first, BOB)
    removed = first.apply([states.Delete("instances", "i5")], serial=2)
    part = known.of(removed, BOB)
    assert part
    assert "i5" in part.gone
    hidden = removed.apply([states.Put(structs.replace(VMS[2], tags=()))], serial=3)
    part = known.of(hidden, BOB)
    assert part
    assert [*part.gone] == ["i5"]
    part = known.of(hidden.apply([states.Delete("instances", "i7")], serial=4), BOB)
    assert part
    assert [*part.gone] == ["i5"]


def test_a_name_that_may_mean_an_invisible_object_is_refused() -> None:
    named = cast("sight.Sight", sight.of(state(rule(Role.ADMIN, Scope.INSTANCE, "i5")), BOB)).named()
    assert named.resolve("instances", "web.a") == "i5"
    with pytest.raises(errors.InvalidError, match=r"web is ambiguous: web\.a$"):
        named.resolve("instances", "web")
    named = cast("sight.Sight", sight.of(state(rule(Role.ADMIN, Scope.INSTANCE, "i9")), BOB)).named()
    # As a whole it is the name of an instance that bob does not see, and that is the one which a job would change.
    with pytest.raises(errors.NotFoundError, match=r"no such instance: db;"):
        named.resolve("instances", "db")


def test_an_opcode_about_an_invisible_object_is_about_none() -> None:
    snapshot = state(rule(Role.ADMIN, Scope.INSTANCE, "i5"))
    check.check(snapshot, BOB, opcodes.InstanceStartup(instance_name="web.a"))
    messages = []
    rapi = structs.replace(BOB, door="rapi")
    for name in ("db.far", "xy.far"):
        roles = (opcodes.TokenRole(role="viewer", on=f"instance:{name}"),)
        token = opcodes.TokenAdd(user="bob", name="x", id="", secret_hash="", extent="roles", roles=roles)
        for op in (opcodes.InstanceStartup(instance_name=name), token):
            with pytest.raises(errors.NotFoundError) as caught:
                check.check(snapshot, rapi, op)
            messages.append(str(caught.value).replace(name, ""))
    assert messages[:2] == messages[2:]


def test_a_refusal_names_no_invisible_object() -> None:
    snapshot = state(rule(Role.ADMIN, Scope.GROUP, "g"))
    op = opcodes.InstanceChangeGroup(instance_name="web.a")
    with pytest.raises(errors.ForbiddenError) as caught:
        check.check(snapshot, BOB, op)
    assert "far" not in str(caught.value)
    assert "about all that it concerns" in str(caught.value)


def test_a_job_that_reads_is_about_visible_instances() -> None:
    snapshot = state(rule(Role.VIEWER, Scope.INSTANCE, "i5"))
    check.check(snapshot, BOB, opcodes.InstanceQueryData(instances=("web.a",)))
    with pytest.raises(errors.NotFoundError):
        check.check(snapshot, BOB, opcodes.InstanceQueryData(instances=("db",)))
    for op in (
        opcodes.InstanceQueryData(),
        opcodes.TagsSearch(pattern="."),
        opcodes.NodeQueryvols(output_fields=("node",)),
    ):
        with pytest.raises(errors.ForbiddenError, match="reads more than"):
            check.check(snapshot, BOB, op)


def test_texts_of_a_job_lose_the_names_of_invisible_objects_unless_the_job_names_them() -> None:
    part = view(state(rule(Role.VIEWER, Scope.INSTANCE, "i5")))
    step = job.Step(
        input=opcodes.InstanceStartup(instance_name="web.b"),
        result=["OpPrereqError", ["web.a, web.b and db.far: node9 of far, port vip (p1)", {"i9": "db."}]],
        log=((1, (0, 0), "message", "moves db.far to node1"),),
    )
    veiled = part.veiled(job.Job(id=1, ops=(step,)))
    hidden = views.HIDDEN
    text = f"web.a, web.b and {hidden}: {hidden} of {hidden}, port vip ({hidden})"
    assert veiled.ops[0].result == ["OpPrereqError", [text, {hidden: f"{hidden}."}]]
    assert veiled.ops[0].log == ((1, (0, 0), "message", f"moves {hidden} to node1"),)
    assert msgspec.json.encode(veiled)
