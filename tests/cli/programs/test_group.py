"""``gnt-group``: each command becomes one opcode."""

import shlex

import pytest
from tests.cli.conftest import Gnt, Master, table

from gantry.cli.commands import policies


def submitted_fields(master: Master) -> dict[str, object]:
    (op,) = master.ops
    del op["reason"]
    return op


@pytest.mark.parametrize(
    ("options", "op"),
    [
        ("--alloc-policy last_resort", {"alloc_policy": "last_resort"}),
        ("--node-parameters cpu_speed=1.5,-ssh_port", {"ndparams": {"cpu_speed": "1.5", "ssh_port": "default"}}),
        (
            "-D plain:stripes=2 -D drbd:protocol=A,resync-rate=default",
            {"diskparams": {"plain": {"stripes": "2"}, "drbd": {"protocol": "A", "resync-rate": "default"}}},
        ),
        (
            "--ipolicy-bounds-specs min:memory-size=128/max:memory-size=32g,cpu-count=8//min:cpu-count=9",
            {
                "ipolicy": {
                    "minmax": [
                        {"min": {"memory-size": 128}, "max": {"memory-size": 32768, "cpu-count": 8}},
                        {"min": {"cpu-count": 9}},
                    ]
                }
            },
        ),
        (
            "--ipolicy-bounds-specs default --ipolicy-disk-templates file,drbd --ipolicy-vcpu-ratio 2.5",
            {"ipolicy": {"minmax": "default", "disk-templates": ["file", "drbd"], "vcpu-ratio": 2.5}},
        ),
        ("--ipolicy-spindle-ratio default", {"ipolicy": {"spindle-ratio": "default"}}),
    ],
)
@pytest.mark.parametrize(("command", "name"), [("add", "OP_GROUP_ADD"), ("modify", "OP_GROUP_SET_PARAMS")])
def test_settings_become_one_opcode(
    gnt: Gnt, master: Master, command: str, name: str, options: str, op: dict[str, object]
) -> None:
    assert gnt(f"gnt-group {command} {options} rack1").code == 0
    assert submitted_fields(master) == {"OP_ID": name, "group_name": "rack1", **op}


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("add --tags a,b rack1", {"OP_ID": "OP_GROUP_ADD", "group_name": "rack1", "tags": ["a", "b"]}),
        ("rename rack1 rack2", {"OP_ID": "OP_GROUP_RENAME", "group_name": "rack1", "new_name": "rack2"}),
        ("remove rack1", {"OP_ID": "OP_GROUP_REMOVE", "group_name": "rack1"}),
        (
            "assign-nodes -f rack1 node2 node3",
            {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": "rack1", "nodes": ["node2", "node3"], "force": True},
        ),
    ],
)
def test_commands_become_one_opcode(gnt: Gnt, master: Master, line: str, op: dict[str, object]) -> None:
    assert gnt(f"gnt-group {line}").code == 0
    assert submitted_fields(master) == op


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("-D stripes=2", "-D needs a name before the colon, as in plain:stripes=2"),
        ("--ipolicy-bounds-specs memory-size=1", "'memory-size=1' is not a bound of a policy"),
        ("--ipolicy-bounds-specs min:cpu-count=1/min:cpu-count=2", "is not a bound of a policy"),
        ("--ipolicy-bounds-specs min:cpu-count", "cpu-count needs a value"),
        ("--ipolicy-bounds-specs max:cpu-count=many", "'many' is not a number"),
        ("--ipolicy-vcpu-ratio much", "'much' is not a ratio"),
        ("--ipolicy-vcpu-ratio nan", "'nan' is not a ratio"),
    ],
)
def test_what_is_not_understood_is_one_line_and_no_job(gnt: Gnt, master: Master, options: str, complaint: str) -> None:
    ran = gnt(f"gnt-group modify {options} rack1")
    assert ran.code == 1
    assert complaint in ran.err
    assert master.ops == []


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("gnt-node modify --node-parameters cpu_speed=2 node2", {"ndparams": {"cpu_speed": "2"}}),
        ("gnt-instance modify -m 512m web1", {"runtime_mem": 512}),
        ("gnt-instance modify --offline web1", {"offline": True}),
        ("gnt-instance modify --online web1", {"offline": False}),
        ("gnt-instance modify --ignore-ipolicy -B vcpus=9 web1", {"ignore_ipolicy": True, "beparams": {"vcpus": "9"}}),
        ("gnt-cluster modify -D drbd:protocol=A", {"diskparams": {"drbd": {"protocol": "A"}}}),
        ("gnt-cluster modify --ipolicy-std-specs disk-size=1t", {"ipolicy": {"std": {"disk-size": 1 << 20}}}),
        ("gnt-os modify -H kvm:disk_type=ide plain", {"os_hvp": {"plain": {"kvm": {"disk_type": "ide"}}}}),
    ],
)
def test_parameters_of_other_levels_become_fields_of_their_opcodes(
    gnt: Gnt, master: Master, line: str, op: dict[str, object]
) -> None:
    assert gnt(line).code == 0
    assert op.items() <= submitted_fields(master).items()


def test_online_and_offline_exclude_each_other(gnt: Gnt, master: Master) -> None:
    assert "exclude each other" in gnt("gnt-instance modify --offline --online web1").err
    assert master.ops == []


def test_the_sizes_of_a_policy_become_the_command_that_sets_them(gnt: Gnt, master: Master) -> None:
    bounds = [{"min": {"disk-size": 8}, "max": {"disk-size": 1024, "cpu-count": 4}}, {"max": {"nic-count": 2}}]
    holds = {"minmax": bounds, "std": {"memory-size": 256}, "vcpu-ratio": 4.0}
    master.answers["QueryClusterInfo"] = {"name": "lab.example", "ipolicy": holds}
    printed = shlex.split(gnt("gnt-cluster show-ispecs-cmd").out)
    assert (printed[:2], printed[-1]) == (["gnt-cluster", "init"], "lab.example")
    assert policies.bounds(printed[printed.index("--ipolicy-bounds-specs") + 1]) == bounds
    assert policies.specs(printed[printed.index("--ipolicy-std-specs") + 1]) == holds["std"]
    columns = ("name:N:text", "custom_ipolicy:P:other")
    master.answers["Query"] = table(*columns, rows=[["rack1", {"minmax": bounds}], ["rack2", {}]])
    first, second = gnt("gnt-group show-ispecs-cmd").out.splitlines()
    assert policies.bounds(shlex.split(first)[3]) == bounds
    assert second == "gnt-group add rack2"


def test_the_command_for_a_group_may_have_the_sizes_of_the_cluster(gnt: Gnt, master: Master) -> None:
    policy = {"minmax": [{"max": {"nic-count": 2}}], "std": {"memory-size": 256}}
    master.answers["Query"] = table("name:N:text", "ipolicy:P:other", rows=[["rack1", policy]])
    ran = gnt("gnt-group show-ispecs-cmd --include-defaults rack1")
    assert ran.out == "gnt-group add --ipolicy-bounds-specs max:nic-count=2 rack1\n"


def test_a_group_is_evacuated_and_what_stays_makes_it_fail(gnt: Gnt, master: Master) -> None:
    master.results["OP_GROUP_EVACUATE"] = {"jobs": [], "stay": {"web1": "it is marked offline"}}
    assert gnt("gnt-group evacuate --to rack2 --to rack3 --sequential --force-failover rack1").code == 1
    expected = {
        "group_name": "rack1",
        "target_groups": ["rack2", "rack3"],
        "sequential": True,
        "force_failover": True,
    }
    op = submitted_fields(master)
    assert {name: op[name] for name in expected} == expected
    assert "early_release" not in op
