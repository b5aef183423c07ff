"""``gnt-cluster access``: what is typed becomes opcodes, and explanations become tables."""

import grp
import os
import pwd

import pytest
from tests.cli.conftest import Gnt, Master

from gantry.cli.commands import access

RULE = {"uuid": "r", "who": "user:bob", "role": "operator", "scope": "instance", "object": "i", "on": "instance:web"}
EXPLAINED = [
    {"right": "operate", "what": "operate instance web", "allowed": True, "rule": RULE},
    {"right": "manage", "what": "manage instance web", "allowed": False, "rule": None},
]


def test_a_rule_is_added(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-cluster access add user:bob operator instance:web").code == 0
    expected = {"OP_ID": "OP_ACCESS_ADD", "who": "user:bob", "role": "operator", "on": "instance:web"}
    assert master.ops[-1] | expected == master.ops[-1]


def test_the_objects_with_a_tag_are_counted(gnt: Gnt, master: Master) -> None:
    master.results["OP_ACCESS_ADD"] = [2, 1]
    assert gnt("gnt-cluster access add user:bob admin tag:shop").out == "tag:shop is on 2 instances and 1 network now\n"


def test_the_objects_of_a_project_are_counted(gnt: Gnt, master: Master) -> None:
    master.results["OP_ACCESS_ADD"] = [0, 1]
    out = gnt("gnt-cluster access add user:bob operator project:shop").out
    assert out == "project:shop has 0 instances and 1 network now\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("user:bob", {"who": "user:bob"}),
        ("user:bob admin", {"who": "user:bob", "role": "admin"}),
        ("group:ops admin cluster", {"who": "group:ops", "role": "admin", "on": "cluster"}),
    ],
)
def test_rules_are_removed(gnt: Gnt, master: Master, words: str, expected: dict[str, str]) -> None:
    assert gnt(f"gnt-cluster access remove {words}").code == 0
    op = {name: value for name, value in master.ops[-1].items() if name in ("who", "role", "on")}
    assert op == expected


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        ("add bob operator cluster", 1, "user:NAME or group:NAME"),
        ("add user:bob king cluster", 1, "king"),
        ("add user:bob operator", 2, "expects WHO ROLE ON"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_reason(
    gnt: Gnt, master: Master, words: str, code: int, fault: str
) -> None:
    ran = gnt(f"gnt-cluster access {words}")
    assert ran.code == code
    assert not master.ops
    assert fault in ran.err


def test_an_explanation_is_a_table(gnt: Gnt, master: Master) -> None:
    master.answers["ExplainAccess"] = EXPLAINED
    lines = gnt("gnt-cluster access explain group:ops instance:web").out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["operate", "operate", "instance", "web", "Y", "user:bob", "operator", "instance:web"],
        ["manage", "manage", "instance", "web", "N", "-"],
    ]
    assert master.requests[-1] == ("ExplainAccess", [["group:ops"], "instance:web"])


def test_the_groups_of_a_user_of_this_machine_are_explained_too(gnt: Gnt, master: Master) -> None:
    master.answers["ExplainAccess"] = []
    own = pwd.getpwuid(os.getuid())
    assert gnt(f"gnt-cluster access explain user:{own.pw_name} cluster").code == 0
    _, (names, _) = master.requests[-1]
    assert names[0] == f"user:{own.pw_name}"
    assert f"group:{grp.getgrgid(own.pw_gid).gr_name}" in names[1:]
    assert access._groups_of("user:no-such-user-here") == []
