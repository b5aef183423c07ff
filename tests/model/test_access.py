"""The decision about a right: rules only add, the cluster contains everything, and no rule means no right."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gantry.model import access

OBJECTS = {
    access.Scope.CLUSTER: ("",),
    access.Scope.GROUP: ("g1", "g2"),
    access.Scope.TAG: ("blue", "red"),
    access.Scope.PROJECT: ("blue", "shop"),
    access.Scope.INSTANCE: ("i1", "i2"),
    access.Scope.NETWORK: ("n1", "n2"),
}
WHOS = ("user:alice", "user:bob", "group:alice", "group:ops")
KEYS = tuple(
    access.Rule(uuid="", name="", role=access.Role.ADMIN, scope=scope, object=name).key
    for scope, names in OBJECTS.items()
    for name in names
)


@st.composite
def rules(draw: st.DrawFn) -> access.Rule:
    scope = draw(st.sampled_from(access.Scope))
    return access.Rule(
        uuid=draw(st.uuids().map(str)),
        name=draw(st.sampled_from(WHOS)),
        role=draw(st.sampled_from(access.Role)),
        scope=scope,
        object=draw(st.sampled_from(OBJECTS[scope])),
    )


SUBJECTS = st.builds(
    access.Subject,
    user=st.sampled_from(["alice", "bob", "carol"]),
    groups=st.lists(st.sampled_from(["alice", "ops", "staff"]), unique=True).map(tuple),
)
NEEDS = st.builds(
    access.Need,
    right=st.sampled_from(access.Right),
    what=st.just("x"),
    keys=st.lists(st.sampled_from(KEYS), unique=True).map(lambda keys: ("cluster", *keys)),
    example=st.just(""),
)


def finder(known: Sequence[access.Rule]) -> access.Find:
    index = defaultdict(list)
    for rule in known:
        index[rule.who, rule.key].append(rule)
    return lambda who, key: index[who, key]


def is_allowed(known: Sequence[access.Rule], subject: access.Subject, need: access.Need) -> bool:
    return access.decide(finder(known), subject, need).is_allowed


@given(st.lists(rules()), rules(), SUBJECTS, NEEDS)
def test_another_rule_never_takes_a_right_away(
    known: list[access.Rule], rule: access.Rule, subject: access.Subject, need: access.Need
) -> None:
    assert is_allowed([*known, rule], subject, need) >= is_allowed(known, subject, need)


@given(st.lists(rules()), SUBJECTS, NEEDS)
def test_a_right_on_the_cluster_is_a_right_on_each_object(
    known: list[access.Rule], subject: access.Subject, need: access.Need
) -> None:
    of_cluster = access.Need(need.right, need.what, ("cluster",), "")
    assert is_allowed(known, subject, need) >= is_allowed(known, subject, of_cluster)


@given(st.lists(rules()), SUBJECTS, NEEDS)
def test_exactly_the_rules_of_the_subject_on_a_scope_of_the_object_count(
    known: list[access.Rule], subject: access.Subject, need: access.Need
) -> None:
    decision = access.decide(finder(known), subject, need)
    giving = [
        rule
        for rule in known
        if rule.who in subject.names and rule.key in need.keys and need.right in access.GRANTS[rule.role]
    ]
    assert decision.is_allowed is bool(giving)
    assert decision.rule in giving if giving else decision.rule is None


@given(SUBJECTS, NEEDS)
def test_without_rules_only_an_administrator_has_a_right(subject: access.Subject, need: access.Need) -> None:
    administrator = access.Subject(user=subject.user, is_admin=True)
    assert not is_allowed([], subject, need)
    assert is_allowed([], administrator, need)


TOKENS = st.builds(
    access.Token,
    uuid=st.sampled_from(["t1", "t2"]),
    name=st.sampled_from(["alice:ci", "bob:ci"]),
    id=st.just(""),
    secret_hash=st.just(""),
    extent=st.sampled_from(access.Extent),
    roles=st.lists(
        rules().map(lambda rule: access.RoleOn(role=rule.role, scope=rule.scope, object=rule.object)), max_size=3
    ).map(tuple),
)
USES = st.builds(access.TokenUse, uuid=st.sampled_from(["t1", "t2"]), name=st.just("ci"), is_admin=st.booleans())
OWNED = st.builds(dataclasses.replace, NEEDS, owner=st.sampled_from(["", "alice", "bob"]))
DOORS = st.sampled_from(["luxi", "rapi"])


@given(st.lists(rules()), SUBJECTS, DOORS, OWNED, USES, TOKENS | st.none())
def test_a_token_never_allows_what_its_user_may_not_nor_what_it_does_not_allow(
    known: list[access.Rule],
    subject: access.Subject,
    door: str,
    need: access.Need,
    use: access.TokenUse,
    token: access.Token | None,
) -> None:
    user = structs.replace(subject, door=door, is_admin=use.is_admin)
    limited = structs.replace(subject, door=door, token=use)
    decision = access.decide(finder(known), limited, need, token=token)
    of_user = access.decide(finder(known), user, need)
    is_its = token is not None and (token.uuid, token.user) == (use.uuid, subject.user)
    assert decision.is_allowed is (of_user.is_allowed and token is not None and is_its and token.allows(need))
    assert access.decide(finder(known), limited, need).is_allowed is False


@given(TOKENS, NEEDS)
def test_a_token_allows_what_rules_with_its_roles_would_allow(token: access.Token, need: access.Need) -> None:
    roles = [
        access.Rule(uuid=str(n), name="user:x", role=each.role, scope=each.scope, object=each.object)
        for n, each in enumerate(token.roles)
    ]
    expected = {
        access.Extent.EVERYTHING: True,
        access.Extent.READ: need.right in access.READING,
        access.Extent.ROLES: is_allowed(roles, access.Subject(user="x"), need),
    }
    assert token.allows(need) is expected[token.extent]
    assert token.allows(dataclasses.replace(need, owner="x")) is False


@given(st.lists(rules()), SUBJECTS, DOORS, OWNED)
def test_a_need_with_an_owner_is_met_by_that_user_of_the_remote_api(
    known: list[access.Rule], subject: access.Subject, door: str, need: access.Need
) -> None:
    user = structs.replace(subject, door=door)
    without = access.decide(finder(known), user, dataclasses.replace(need, owner=""))
    is_owner = need.owner == subject.user and door == "rapi"
    assert access.decide(finder(known), user, need).is_allowed is (without.is_allowed or is_owner)


def test_a_need_without_an_owner_is_not_met_by_a_user_without_a_name() -> None:
    need = access.Need(access.Right.OPERATE, "x", ("cluster",), "")
    assert not is_allowed([], access.Subject(user="", door="rapi"), need)


def test_a_token_knows_its_user_and_its_end() -> None:
    token = access.Token(uuid="t", name=access.token_name("a/b", "ci"), id="", secret_hash="", end=5.0)
    assert (token.user, token.label) == ("a/b", "ci")
    assert [token.has_ended(now) for now in (4.9, 5.0)] == [False, True]


def test_jobs_of_a_user_are_not_those_of_a_token() -> None:
    user = access.Subject(user="bob", door="rapi")
    first, second = (structs.replace(user, token=access.TokenUse(uuid, "ci")) for uuid in ("t1", "t2"))
    assert user.has_jobs_of(first)
    assert first.has_jobs_of(first)
    assert not first.has_jobs_of(second)
    assert not first.has_jobs_of(user)
    assert not access.Subject(user="bob").has_jobs_of(user)


@pytest.mark.parametrize("right", [access.Right.WIRE, access.Right.ADMINISTER])
@given(known=st.lists(rules()), subject=SUBJECTS)
def test_no_rule_on_an_object_gives_a_right_on_the_cluster(
    right: access.Right, known: list[access.Rule], subject: access.Subject
) -> None:
    need = access.Need(right, "x", ("cluster",), "")
    on_objects = [rule for rule in known if rule.scope is not access.Scope.CLUSTER]
    assert not is_allowed(on_objects, subject, need)


def test_only_an_admin_of_the_cluster_administers_it() -> None:
    assert [role for role in access.Role if access.Right.ADMINISTER in access.GRANTS[role]] == [access.Role.ADMIN]


def test_a_group_and_a_user_of_one_name_are_two() -> None:
    rule = access.Rule(uuid="r", name="group:alice", role=access.Role.ADMIN, scope=access.Scope.CLUSTER)
    need = access.Need(access.Right.OPERATE, "x", ("cluster",), "")
    assert not is_allowed([rule], access.Subject(user="alice"), need)
    assert is_allowed([rule], access.Subject(user="bob", groups=("alice",)), need)


def test_a_tag_is_no_object_that_is_named_like_it() -> None:
    rule = access.Rule(uuid="r", name="user:alice", role=access.Role.ADMIN, scope=access.Scope.TAG, object="cluster")
    assert not is_allowed([rule], access.Subject(user="alice"), access.Need(access.Right.MANAGE, "x", ("cluster",), ""))


def test_the_same_name_at_another_front_end_is_another_user() -> None:
    local = access.Subject(user="root", is_admin=True)
    assert not access.Subject(user="root", door="rapi").is_same_user(local)
    assert access.Subject(user="root").is_same_user(local)


def test_a_decision_looks_up_names_and_scopes_only() -> None:
    looked_up: list[tuple[str, str]] = []

    def find(who: str, key: str) -> Sequence[access.Rule]:
        looked_up.append((who, key))
        return ()

    subject = access.Subject(user="alice", groups=("ops",))
    access.decide(find, subject, access.Need(access.Right.OPERATE, "x", ("cluster", "g1", "i1"), ""))
    assert len(looked_up) == len(set(looked_up)) == 6
