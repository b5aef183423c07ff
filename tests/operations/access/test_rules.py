"""The units that add and remove access rules, and the end of rules with their object."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import access, opcodes
from gantry.operations.access import rules


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def add(lab: build.MemoryCluster, role: str, on: str, who: str = "user:bob") -> object:
    return await lab.run(opcodes.AccessAdd(who=who, role=role, on=on))  # type: ignore[arg-type]


def stored(lab: build.MemoryCluster) -> set[tuple[str, str, str]]:
    return {(rule.who, rule.role.value, rule.key) for rule in lab.state.accessrules.values()}


async def test_a_rule_names_its_object_by_uuid(lab: build.MemoryCluster) -> None:
    for on in ("cluster", "group:default", "tag:blue", "project:shop", "instance:vm1", "network:net1"):
        await add(lab, "operator", on)
    keys = {"cluster", "g", "tag:blue", "project:shop", "i1", "net"}
    assert stored(lab) == {("user:bob", "operator", key) for key in keys}


async def test_a_rule_that_exists_is_not_added_twice(lab: build.MemoryCluster) -> None:
    await add(lab, "operator", "instance:vm1")
    await add(lab, "operator", "instance:i1")
    await add(lab, "admin", "instance:vm1")
    assert stored(lab) == {("user:bob", "operator", "i1"), ("user:bob", "admin", "i1")}


async def test_the_result_says_how_many_objects_carry_a_tag(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.TagsSet(kind="instance", name="vm1", tags=("blue",)))
    assert await add(lab, "admin", "tag:blue") == (1, 0)
    assert await add(lab, "admin", "cluster") is None


async def test_the_result_says_how_many_objects_a_project_has(lab: build.MemoryCluster) -> None:
    await lab.run(opcodes.NetworkAdd(network_name="shopnet", project="shop"))
    await lab.run(opcodes.PortAdd(ports=(opcodes.PortSpec(network="net1", name="web", project="shop"),)))
    assert await add(lab, "operator", "project:shop") == (0, 1)
    add_nic = opcodes.NicChange("add", -1, opcodes.NicMod(port="web"))
    await lab.run(opcodes.InstanceSetParams(instance_name="vm1", nics=(add_nic,)))
    assert await add(lab, "admin", "project:shop") == (1, 1)
    assert await add(lab, "viewer", "project:sho") == (0, 0)


@pytest.mark.parametrize(
    ("role", "on", "text"),
    [
        ("admin", "network:net1", "network-admin changes a network"),
        ("network-admin", "instance:vm1", "has no meaning on the scope instance"),
        ("network-admin", "group:default", "has no meaning on the scope group"),
        ("operator", "instance:vm9", "no such instance: vm9"),
        ("operator", "node:node1", "names nothing that a rule can be about"),
        ("operator", "cluster:lab", "names nothing that a rule can be about"),
        ("operator", "instance", "names nothing that a rule can be about"),
        ("operator", "tag:", "names nothing that a rule can be about"),
        ("operator", "tag:a\nb", "cannot be a tag"),
        ("operator", "tag:<b>", "cannot be a tag"),
        ("operator", "project:", "names nothing that a rule can be about"),
        ("operator", "project:a\nb", "cannot be the id of a project"),
        ("operator", "project:" + "x" * 256, "cannot be the id of a project"),
        ("network-admin", "project", "names nothing that a rule can be about"),
    ],
)
async def test_a_rule_without_a_meaning_is_refused(lab: build.MemoryCluster, role: str, on: str, text: str) -> None:
    op = opcodes.AccessAdd(who="user:bob", role=role, on=on)  # type: ignore[arg-type]
    assert text in str(await lab.refused(op))
    assert not lab.state.accessrules


@pytest.mark.parametrize(
    "who",
    [
        "bob", "user:", "user:a b", "user:a\n", "user:a:b", "node:x", "", "user:" + "x" * 300,
        "user:oidc:", "user:oidc:a:b", "user:oidc:a b", "group:ldap:a", "oidc:a",
    ],
)  # fmt: skip
def test_a_name_that_no_user_can_have_is_refused(who: str) -> None:
    with pytest.raises(errors.InvalidError, match="who"):
        opcodes.decode({"OP_ID": "OP_ACCESS_ADD", "who": who, "role": "operator", "on": "cluster"})


@pytest.mark.parametrize(
    "who", ["user:oidc:anna", "group:oidc:/a/b", "user:oidc:anna@example.org", "group:oidc:" + "x" * 250]
)
def test_a_name_of_an_openid_provider_has_its_prefix(who: str) -> None:
    decoded = opcodes.decode({"OP_ID": "OP_ACCESS_ADD", "who": who, "role": "operator", "on": "cluster"})
    assert isinstance(decoded, opcodes.AccessAdd)
    assert decoded.who == who


async def test_a_name_may_have_markup_but_no_control_characters(lab: build.MemoryCluster) -> None:
    await add(lab, "operator", "cluster", who="user:<b>&'\"")
    assert ("user:<b>&'\"", "operator", "cluster") in stored(lab)
    assert "cannot be printed" in str(
        await lab.refused(opcodes.AccessAdd(who="user:a\x1b[0m", role="operator", on="cluster"))
    )


async def test_rules_are_removed_by_role_and_object_or_all_of_a_user(lab: build.MemoryCluster) -> None:
    for role, on in (("operator", "instance:vm1"), ("admin", "instance:vm1"), ("operator", "cluster")):
        await add(lab, role, on)
    await add(lab, "operator", "cluster", who="user:carol")
    await lab.run(opcodes.AccessRemove(who="user:bob", role="admin", on="instance:vm1"))
    assert ("user:bob", "admin", "i1") not in stored(lab)
    await lab.run(opcodes.AccessRemove(who="user:bob"))
    assert stored(lab) == {("user:carol", "operator", "cluster")}
    assert "user:bob has no such access rule" in str(await lab.refused(opcodes.AccessRemove(who="user:bob")))


async def test_a_new_name_of_an_object_keeps_its_rules(lab: build.MemoryCluster) -> None:
    await add(lab, "network-admin", "network:spare")
    await lab.run(opcodes.NetworkRename(network_name="spare", new_name="other"))
    await lab.run(opcodes.AccessRemove(who="user:bob", on="network:other"))
    assert not lab.state.accessrules


async def test_there_is_a_maximum_of_rules(lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LIMIT", 1)
    await add(lab, "operator", "cluster")
    await add(lab, "operator", "cluster")
    assert "the maximum" in str(await lab.refused(opcodes.AccessAdd(who="user:bob", role="admin", on="cluster")))


def test_each_role_has_a_scope_and_each_pair_is_refused_or_has_a_meaning() -> None:
    assert access.SCOPES.keys() == {*access.Role}
    assert all(access.SCOPES[role] for role in access.Role)
