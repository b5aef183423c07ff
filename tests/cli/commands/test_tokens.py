"""``gantry token``: the text that is shown once, what the master gets of it, and what is refused."""

import hashlib
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Fault, Gnt, Master

from gantry.model import token_text

FIELDS = ("user", "name", "extent", "roles", "until")


def test_the_text_is_printed_and_the_master_gets_its_hash(gnt: Gnt, master: Master) -> None:
    master.results["OP_TOKEN_ADD"] = time.time() + 60
    ran = gnt("gantry token add ci --user bob")
    assert ran.code == 0
    notice, text = ran.out.splitlines()
    assert notice.startswith("This is the only time that the token is shown. It is valid until ")
    (op,) = master.ops
    assert {name: op[name] for name in FIELDS if name in op} == {"user": "bob", "name": "ci"}
    assert op["id"] == token_text.identifier(text)
    assert op["secret_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert text.split("_")[2] not in str(master.requests)


def test_a_token_that_was_not_created_is_not_printed(gnt: Gnt, master: Master) -> None:
    master.results["OP_TOKEN_ADD"] = Fault("OpPrereqError", "no", "already_exists")
    ran = gnt("gantry token add ci --user bob")
    assert (ran.code, "gantry_" in ran.out + ran.err) == (1, False)
    master.results["OP_TOKEN_ADD"] = ["create API token ci"]
    assert gnt("gantry token add ci --user bob --dry-run").out == "create API token ci\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--read", {"extent": "read"}),
        ("--until never", {"until": "never"}),
        ("--until 2099-01-01", {"until": time.mktime((2099, 1, 1, 0, 0, 0, 0, 0, -1))}),
        (
            "--role operator --on tag:web --role admin --on instance:vm1",
            {
                "extent": "roles",
                "roles": [{"role": "operator", "on": "tag:web"}, {"role": "admin", "on": "instance:vm1"}],
            },
        ),
    ],
)
def test_what_a_token_allows_and_its_end_are_passed_on(
    gnt: Gnt, master: Master, words: str, expected: dict[str, object]
) -> None:
    assert gnt(f"gantry token add ci --user bob {words}").code == 0
    (op,) = master.ops
    assert {name: op[name] for name in FIELDS if name in op} == {"user": "bob", "name": "ci", **expected}


def test_a_duration_is_counted_from_now(gnt: Gnt, master: Master) -> None:
    before = time.time()
    assert gnt("gantry token add ci --user bob --until 30d").code == 0
    assert before + 30 * 86400 <= master.ops[-1]["until"] <= time.time() + 30 * 86400


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        ("add ci", 1, "--user is missing"),
        ("add --user bob", 2, "expects NAME"),
        ("add ci --user bob --role admin", 1, "there are 1 --role and 0 --on"),
        ("add ci --user bob --role king --on cluster", 2, "king"),
        ("add ci --user bob --read --role admin --on cluster", 1, "exclude each other"),
        ("add ci --user bob --until soon", 1, "write a duration from now, as in 30d"),
        ("add ci --user bob --until -2h", 1, "is in the past"),
        ("add ci --user bob --submit", 1, "--submit has no use"),
        ("add 'a b' --user bob", 1, "NAME"),
        ("add ci --usr bob", 2, "did you mean --user?"),
        ("revoke --user bob", 1, "there is no token to revoke"),
        ("revoke ci --user bob --all", 1, "there is no token to revoke"),
    ],
)
def test_invalid_input_is_refused_with_its_reason(gnt: Gnt, master: Master, words: str, code: int, fault: str) -> None:
    ran = gnt(f"gantry token {words}")
    assert (ran.code, master.ops) == (code, [])
    assert fault in ran.err


@pytest.mark.parametrize(
    ("user", "hint"), [("alcie", "did you mean alice?"), ("x", "add the user first"), ("#", "add the user first")]
)
def test_a_user_whom_the_users_file_lacks_gets_no_token(
    gnt: Gnt, master: Master, root: Path, user: str, hint: str
) -> None:
    (root / "lib" / "users").write_text("# comment\n\nalice:$2y$10$x\nbob two read\n")
    ran = gnt(f"gantry token add ci --user {user}")
    assert (ran.code, master.ops) == (1, [])
    assert hint in ran.err
    for known in ("alice", "bob"):
        assert gnt(f"gantry token add ci --user {known}").code == 0


def test_tokens_are_revoked(gnt: Gnt, master: Master) -> None:
    assert gnt("gantry token revoke ci --user bob").code == 0
    assert gnt("gantry token revoke --user bob --all").code == 0
    ops = [{name: op[name] for name in FIELDS if name in op} for op in master.ops]
    assert ops == [{"user": "bob", "name": "ci"}, {"user": "bob"}]


def test_an_unknown_name_brings_the_nearest(gnt: Gnt, master: Master) -> None:
    master.results["OP_TOKEN_REVOKE"] = Fault("OpPrereqError", "user bob has no API token deplyo", "unknown_entity")
    fields = [{"name": "label", "title": "Name", "kind": "text", "doc": ""}]
    master.answers["Query"] = {"fields": fields, "data": [[[0, "ci"]], [[0, "deploy"]]]}
    ran = gnt("gantry token revoke deplyo --user bob")
    assert ran.code == 1
    assert "user bob has no API token deplyo; did you mean deploy?" in ran.err
    assert master.requests[-1] == ("Query", ["token", ["label"], ["=", "user", "bob"]])
    assert "did you mean" not in gnt("gantry token revoke other --user bob").err


def test_the_list_takes_a_user_and_names(gnt: Gnt, master: Master) -> None:
    names = ("name", "allows", "ctime", "end", "id")
    fields = [{"name": name, "title": name, "kind": "text", "doc": ""} for name in names]
    master.answers["Query"] = {"fields": fields, "data": [[(0, "bob:ci"), (0, "read"), (0, "x"), (3, None), (0, "Az")]]}
    ran = gnt("gantry token list --user bob bob:ci")
    assert ran.err == ""
    assert ran.out.splitlines()[1].split() == ["bob:ci", "read", "x", "-", "Az"]
    method, (resource, columns, where) = master.requests[-1]
    assert (method, resource, columns) == ("Query", "token", [*names])
    assert where == ["&", ["=", "user", "bob"], ["|", ["=", "name", "bob:ci"]]]
