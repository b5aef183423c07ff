"""The methods of LUXI about the packages of nodes, with a simulated node that has a dpkg and an apt."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors.talk import ETX, ask, request

from gantry.node.daemon import packages
from gantry.runtime import commands
from gantry.runtime.simulated import processes
from gantry.sim import cluster


@pytest.fixture(autouse=True)
def offer(lab: cluster.SimulatedCluster) -> Iterator[dict[str, str]]:
    """The fields of the packages that the node can get."""
    fields = {"Gantry-Protocol": "1-1", "Gantry-State": "10000000"}

    async def run(call: processes.Invocation) -> commands.Completed:
        word = call.arguments[1] if call.arguments[0] == "apt-cache" else call.arguments[0]
        output = {
            "dpkg-query": "gantry-common\t1.0\tinstalled",
            "madison": "gantry-common | 1.0 |\ngantry-common | 1.1 |",
            "show": "\n".join(f"{name}: {value}" for name, value in fields.items()),
        }
        return commands.Completed(0, output.get(word, "").encode(), b"")

    programs = lab.master.processes.programs
    before = dict(programs)
    programs |= dict.fromkeys(("dpkg-query", "apt-cache", "apt-get", "systemctl"), run)
    lab.run(lab.master.disk.make_directory(packages.SYSTEMD))
    yield fields
    programs.clear()
    programs.update(before)


def check(lab: cluster.SimulatedCluster) -> list[dict[str, str]]:
    (answer,) = ask(lab, request("ChangePackages", "check", ["node1"], "1.1", 0))
    assert answer["success"] is True, answer
    return msgspec.convert(answer["result"], list[dict[str, str]])


def test_nodes_have_their_role_and_the_version_of_their_packages(lab: cluster.SimulatedCluster) -> None:
    (answer,) = ask(lab, request("QueryPackages"))
    (node,) = msgspec.convert(answer["result"], list[dict[str, object]])
    assert (node["node"], node["role"], node["installed"], node["error"]) == ("node1", "master", "1.0", "")


def test_nodes_without_an_answer_have_the_reason_in_place_of_a_version() -> None:
    with cluster.SimulatedCluster(seed=2, nodes=4) as simulated:
        simulated.run(simulated.build())
        simulated.run(simulated.done({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node3", "offline": True}))
        simulated.kill("node4")
        rows = msgspec.convert(simulated.run(simulated.luxi("QueryPackages")), list[dict[str, object]])
    described = {row["node"]: (row["role"], row["offline"], row["installed"]) for row in rows}
    assert list(described) == ["node1", "node2", "node3", "node4"]
    assert described["node3"] == ("regular", True, "")
    assert described["node4"] == ("candidate", False, "")
    reasons = {row["node"]: str(row["error"]) for row in rows}
    assert reasons["node3"] == "the node is marked offline"
    assert reasons["node4"].startswith("node node4 ")


def test_a_version_that_fits_is_accepted(lab: cluster.SimulatedCluster) -> None:
    assert check(lab) == [{"node": "node1", "error": ""}]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("Gantry-Protocol", "2-3", "version 1.1 has protocol 2-3, this master 1-1"),
        ("Gantry-State", "9990000", "version 1.1 cannot read the state of this cluster: it knows the format 9990000"),
    ],
)
def test_a_version_too_far_from_this_one_is_refused(
    lab: cluster.SimulatedCluster, offer: dict[str, str], field: str, value: str, words: str
) -> None:
    offer[field] = value
    assert check(lab)[0]["error"].startswith(words)


def test_packages_without_fields_are_of_the_first_versions_and_fit(
    lab: cluster.SimulatedCluster, offer: dict[str, str]
) -> None:
    offer.clear()
    assert check(lab) == [{"node": "node1", "error": ""}]


def test_only_root_on_the_master_changes_packages(lab: cluster.SimulatedCluster) -> None:
    passed_on = {"method": "ChangePackages", "args": ["check", ["node1"], "1.1", 0], "remote": True}
    (answer,) = ask(lab, json.dumps(passed_on).encode() + ETX)
    assert "only root may change the packages of nodes" in str(answer["result"])
