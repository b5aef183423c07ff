"""The decision about a right: rules only add, the cluster contains everything, and no rule means no right."""

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.model import access

OBJECTS = {
    access.Scope.CLUSTER: ("",),
    access.Scope.GROUP: ("g1", "g2"),
    access.Scope.TAG: ("blue", "red"),
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
