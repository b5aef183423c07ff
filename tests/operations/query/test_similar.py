"""Similar names: one typing error away, never in digits alone, and at a bounded cost."""

import msgspec
import pytest
from tests import effort
from tests.operations import build

from gantry import errors
from gantry.model import network
from gantry.operations.query import similar


def _build_lab(*names: str) -> build.MemoryCluster:
    lab = build.MemoryCluster()
    vms = [
        msgspec.structs.replace(build.VM, uuid=f"w{index}", name=name, nics=(), disks=())
        for index, name in enumerate(names)
    ]
    lab.put(*vms)
    return lab


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("wbe1", ["web1"]),
        ("weeb1", ["web1"]),
        ("wb1", ["web1"]),
        ("qeb1", ["web1"]),
        ("wbe1.example", ["web1.example"]),
        ("web1.exmaple", ["web1.example"]),
        ("mial", ["mail"]),
        ("web1.example", []),
        ("web3", []),
        ("web", []),
        ("bwe1", []),
        ("other", []),
        ("w", []),
        ("", []),
        ("w" * 101, []),
        ("wübe", []),
    ],
)
def test_a_name_is_similar_if_one_typing_error_separates_it(typed: str, expected: list[str]) -> None:
    lab = _build_lab("web1.example", "web2.example", "mail")
    assert similar.names(lab.state, "instance", typed) == expected


@pytest.mark.parametrize(("what", "typed", "expected"), [("node", "ndoe1", "node1"), ("network", "nett1", "net1")])
def test_each_kind_has_its_own_names(what: str, typed: str, expected: str) -> None:
    lab = build.MemoryCluster()
    assert similar.names(lab.state, what, typed) == [expected]
    assert similar.names(lab.state, "group", typed) == []


def test_names_of_other_kinds_are_refused() -> None:
    with pytest.raises(errors.InvalidError, match="no similar names for port"):
        similar.names(build.MemoryCluster().state, "port", "vpi")


def test_at_most_some_names_are_returned() -> None:
    lab = build.MemoryCluster()
    lab.put(*(network.Network(uuid=f"x{letter}", name=f"lan{letter}") for letter in "abcdefghijklmnopqrstuvwxyz"))
    assert len(similar.names(lab.state, "network", "lan1")) == similar.MAX_NAMES


@pytest.mark.parametrize("typed", ["wbe1.example", "wbe1"])
def test_the_cost_of_a_name_is_bounded(typed: str) -> None:
    few, many = (_build_lab(*(f"web{number}.example" for number in range(count))) for count in (10, 1010))
    names: dict[int, list[str]] = {}

    def ask(lab: build.MemoryCluster) -> int:
        return effort.lines(lambda: names.update({id(lab): similar.names(lab.state, "instance", typed)}))

    growth = ask(many) - ask(few)
    assert names[id(few)] == names[id(many)] == [typed.replace("wbe", "web")]
    assert growth <= (0 if "." in typed else 6 * 1000)
