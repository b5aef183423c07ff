import json
import subprocess
from pathlib import Path

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import instance, opcodes
from gantry.operations.placement import iallocator
from gantry.state.objects import snapshot as states

HAIL = Path("/usr/lib/ganeti/iallocators/hail")
MANY = structs.replace(build.VM, disk_template="diskless", disks=(), admin_state=instance.AdminState.UP)


def build_lab() -> build.MemoryCluster:
    return build.MemoryCluster(*(MANY if value is build.VM else value for value in build.FIRST))


def document(request: iallocator.Json) -> bytes:
    state = build_lab().state
    return iallocator.document(state, dict.fromkeys(state.nodes, build.STATUS), request)


def test_a_request_has_what_existing_programs_read() -> None:
    parsed = json.loads(document(iallocator.relocate(MANY, leaves=["node1"])))
    assert set(parsed) == {
        "version", "cluster_name", "cluster_tags", "enabled_hypervisors", "ipolicy", "nodegroups", "nodes",
        "instances", "request",
    }  # fmt: skip
    assert parsed["request"]["relocate_from"] == ["node1"]
    assert parsed["nodes"]["node1"]["free_memory"] == 2048
    assert parsed["instances"]["vm1"]["nodes"] == ["node1"]
    assert parsed["instances"]["vm1"]["nics"][0]["ip"] == "192.0.2.10"


@pytest.mark.promise("cluster-98")
@pytest.mark.parametrize("flag", ["offline", "drained", "master_candidate", "vm_capable"])
@pytest.mark.parametrize("value", [True, False])
def test_a_request_has_the_flags_of_each_node(flag: str, value: bool) -> None:
    before = build_lab().state
    state = before.apply([states.Put(structs.replace(before.node("node2"), **{flag: value}))], serial=before.serial + 1)
    nodes = json.loads(iallocator.document(state, dict.fromkeys(state.nodes, build.STATUS), {}))["nodes"]
    assert nodes["node2"][flag] is value


def test_a_node_that_does_not_answer_is_reported_as_offline() -> None:
    state = build_lab().state
    parsed = json.loads(iallocator.document(state, {"n1": build.STATUS}, {}))
    assert not parsed["nodes"]["node1"]["offline"]
    assert parsed["nodes"]["node2"]["offline"]
    assert "free_memory" not in parsed["nodes"]["node2"]


@pytest.mark.skipif(not HAIL.exists(), reason="hail (Debian package ganeti-htools) is not installed")
@pytest.mark.parametrize("kind", ["allocate", "two", "many", "evacuate"])
def test_hail_understands_what_is_asked(kind: str, tmp_path: Path) -> None:
    state = build_lab().state
    new = structs.replace(MANY, uuid="new", name="new", nics=())
    drbd = structs.replace(
        new, disk_template="drbd", disks=(instance.Disk(uuid="d", dev_type="drbd", size=1024),), name="two"
    )
    request = {
        "allocate": iallocator.allocate(state, new),
        "two": iallocator.allocate(state, drbd, mirrored=True),
        "many": iallocator.allocate_many(state, [new, structs.replace(new, name="other")]),
        "evacuate": iallocator.evacuate(["vm1"], mode="primary-only"),
    }[kind]
    file = tmp_path / "request.json"
    file.write_bytes(document(request))
    raw = subprocess.run([HAIL, file], capture_output=True, check=False, timeout=60).stdout
    if kind == "evacuate":
        moves = iallocator.moves(raw, program="hail")
        assert [op.op_id for job in moves.jobs for op in job] == ["OP_INSTANCE_MIGRATE"]
    elif kind == "many":
        assert json.loads(raw)["success"]
    else:
        count = 2 if kind == "two" else 1
        node_names, _ = iallocator.nodes(raw, state, program="hail", count=count)
        assert len(node_names) == count


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "answer of allocator p is invalid"),
        (b"[]", "answer of allocator p is invalid"),
        (b'{"success": true}', "no result"),
        (b'{"success": true, "result": {}}', "answer of allocator p is invalid"),
        (b'{"success": true, "result": ["node9"]}', "node9"),
        (b'{"success": true, "result": []}', "1 nodes were requested"),
        (b'{"success": true, "result": ["node1", "node2"]}', "1 nodes were requested"),
        (
            b'{"success": true, "result": ["node1"]}',
            "the answer of allocator p is invalid: the instance already has node node1",
        ),
        (b'{"success": false, "info": "all full"}', "all full"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_with_the_reason(raw: bytes, why: str) -> None:
    with pytest.raises(errors.PrerequisiteError, match=why):
        iallocator.nodes(raw, build_lab().state, program="p", count=1, excluded=("n1",))


@pytest.mark.parametrize(
    "result", [[], [[], []], [[], [], [[{"OP_ID": "OP_NOTHING"}]]], [[], [], [{"OP_ID": "OP_TEST_DELAY"}]], 7]
)
def test_moves_that_are_none_are_refused(result: object) -> None:
    with pytest.raises(errors.EnvironmentFaultError, match="answer of allocator p is invalid"):
        iallocator.moves(json.dumps({"success": True, "result": result}).encode(), program="p")


async def test_a_program_is_asked_with_its_options_and_its_word_counts() -> None:
    lab = build_lab()
    lab.put(structs.replace(lab.state.the_cluster, default_iallocator="p", default_iallocator_params={"mode": "x"}))
    lab.allocators["p"] = b'{"success": true, "info": "why", "result": ["node2"]}'
    create = opcodes.InstanceCreate(instance_name="new", disk_template="diskless")
    plan = await lab.plan(create)
    assert "allocator p chose node2: why" in plan.lines
    ((name, request, arguments),) = lab.requests
    assert (name, arguments) == ("p", ["--mode=x"])
    assert json.loads(request)["request"]["type"] == "allocate"
    plan = await lab.plan(structs.replace(create, iallocator="gantry"))
    assert any(line.startswith("the allocator chose node") for line in plan.lines)
    both = await lab.refused(structs.replace(create, pnode="node1", iallocator="p"))
    assert "exclude each other" in both.message
