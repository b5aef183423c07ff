from pathlib import Path

import pytest
from tests.cli.conftest import Gnt, Master

PROGRAMS = [
    ("gnt-cluster", "cluster", ""),
    ("gnt-node", "node", "node1"),
    ("gnt-group", "nodegroup", "rack1"),
    ("gnt-instance", "instance", "web1"),
    ("gnt-network", "network", "net1"),
]
EACH = pytest.mark.parametrize(("program", "kind", "name"), PROGRAMS)


@EACH
def test_tags_are_listed_by_name_a_line_each(gnt: Gnt, master: Master, program: str, kind: str, name: str) -> None:
    master.answers["QueryTags"] = ["web", "blue"]
    assert gnt(f"{program} list-tags {name}").out == "blue\nweb\n"
    assert master.requests[-1] == ("QueryTags", [kind, name])


@EACH
@pytest.mark.parametrize(("command", "op_id"), [("add-tags", "OP_TAGS_SET"), ("remove-tags", "OP_TAGS_DEL")])
def test_tags_are_added_and_removed(
    gnt: Gnt, master: Master, program: str, kind: str, name: str, command: str, op_id: str, root: Path
) -> None:
    (root / "tags").write_text("green\n\n amber \n")
    assert gnt(f"{program} {command} --from {root}/tags {name} web blue").code == 0
    (op,) = master.ops
    assert (op["OP_ID"], op["kind"], op["name"]) == (op_id, kind, name)
    assert op["tags"] == ["web", "blue", "green", "amber"]


@EACH
def test_no_tags_are_a_mistake(gnt: Gnt, master: Master, program: str, kind: str, name: str) -> None:
    ran = gnt(f"{program} add-tags {name}")
    assert ran.code == 1
    assert "no tags given; write them after the name, or use --from" in ran.err
    assert not master.ops


def test_tags_are_searched_everywhere(gnt: Gnt, master: Master) -> None:
    master.results["OP_TAGS_SEARCH"] = [["/cluster", "web"], ["/nodes/node1", "web:2"]]
    assert gnt("gnt-cluster search-tags ^web") == (0, "/cluster web\n/nodes/node1 web:2\n", "")
    assert master.ops[0]["pattern"] == "^web"
    master.results["OP_TAGS_SEARCH"] = []
    assert gnt("gnt-cluster search-tags red") == (1, "", "")
