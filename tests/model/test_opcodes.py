"""Opcodes as clients send them and as job files keep them."""

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import floats
from tests.model import strategies

from gantry import errors
from gantry.model import job, opcodes

ANY = st.one_of(*(strategies.of(kind) for kind in opcodes.ALL))
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 1}
CREATE = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "inst1"}


@settings(max_examples=300, deadline=None)
@given(ANY)
def test_every_opcode_is_read_back_as_it_was_written(op: opcodes.Opcode) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(opcodes.encode(op)))
    assert sent["OP_ID"] == op.op_id
    assert msgspec.json.encode(opcodes.decode(sent)) == msgspec.json.encode(op)


@settings(max_examples=100, deadline=None)
@given(ANY)
def test_every_opcode_survives_in_a_job_file(op: opcodes.AnyOpcode) -> None:
    original = job.Job(id=1, ops=(job.Step(input=op),))
    again = msgspec.json.decode(msgspec.json.encode(original), type=job.Job)
    assert msgspec.json.encode(again.ops[0].input) == msgspec.json.encode(op)


@pytest.mark.parametrize("kind", opcodes.ALL)
def test_an_opcode_has_the_name_of_its_class_and_a_text(kind: type[opcodes.Opcode]) -> None:
    words = re.findall(r"[A-Z][a-z]*", kind.__name__)
    assert str(kind.__struct_config__.tag) == "OP_" + "_".join(words).upper()
    assert (kind.__doc__ or "").endswith((".", ".\n    ", '").', '".\n    '))
    assert not kind.DESCRIBES or kind.DESCRIBES in kind.__struct_fields__


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"disk_tempalte": "file"}, "did you mean disk_template?"),
        ({"disks": [["add", -1, {"szie": 1}]]}, "did you mean size?"),
        ({"nics": [["add", {"mca": "auto"}]]}, "did you mean mac?"),
        ({"disks": [["modify", 0, {"mode": "rx"}]]}, "valid values: r, ro, rw, w"),
        ({"disks": [["add", -1, {"spindles": -1}]]}, "see the reference of opcodes for its fields"),
    ],
)
def test_what_is_misspelt_is_answered_with_what_there_is(fields: dict[str, object], hint: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1"} | fields)
    assert caught.value.hint == hint


@settings(max_examples=100, deadline=None)
@given(ANY)
def test_a_field_that_no_opcode_knows_is_refused_by_name(op: opcodes.Opcode) -> None:
    with pytest.raises(errors.InvalidError, match="colour"):
        opcodes.decode(opcodes.encode(op) | {"colour": "red"})


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"duration": 1}, "OP_ID"),
        ({"OP_ID": "OP_NOTHING"}, "OP_NOTHING"),
        ("OP_TEST_DELAY", "object"),
        (None, "object"),
        ([], "object"),
        ({"OP_ID": "OP_TEST_DELAY"}, "duration"),
        (DELAY | {"duration": -1}, r"duration"),
        (DELAY | {"duration": "nan"}, r"duration"),
        (DELAY | {"duration": "inf"}, r"duration"),
        (DELAY | {"priority": 20}, r"priority"),
        (DELAY | {"depends": [[1, ["running"]]]}, r"depends\[0\]\[1\]\[0\]"),
        (CREATE | {"instance_name": ""}, r"instance_name"),
        (CREATE | {"instance_name": "../etc"}, r"instance_name"),
        (CREATE | {"instance_name": "inst1\n"}, r"instance_name"),
        (CREATE | {"instance_name": None}, r"instance_name"),
        (CREATE | {"disks": [{"size": 1, "mode": "x"}]}, r"disks\[0\]\.mode"),
        (CREATE | {"disks": [{"size": 1}] * 17}, r"disks"),
        (CREATE | {"nics": [{}] * 9}, r"nics"),
        (CREATE | {"hvparams": {"acpi": None}}, r"hvparams"),
    ],
)
def test_what_is_no_opcode_is_refused_with_the_place(raw: object, path: str) -> None:
    with pytest.raises(errors.InvalidError, match=path):
        opcodes.decode(raw)


@pytest.mark.parametrize("text", ["true", "True", "yes"])
def test_truth_values_and_numbers_may_be_text(text: str) -> None:
    op = opcodes.decode(DELAY | {"duration": "2.5", "repeat": "3", "no_locks": text, "on_master": "no"})
    assert op == opcodes.TestDelay(duration=2.5, repeat=3, no_locks=True, on_master=False)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (CREATE, "force"),
        (CREATE, "no_install"),
        ({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1"}, "offline"),
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "vm1"}, "live"),
        ({"OP_ID": "OP_WEBHOOK_SET_PARAMS", "name": "hook"}, "enabled"),
        ({"OP_ID": "OP_CLUSTER_SET_PARAMS"}, "prealloc_wipe_disks"),
    ],
)
def test_a_truth_value_that_may_be_omitted_may_be_yes_or_no_too(raw: dict[str, object], field: str) -> None:
    values = [getattr(opcodes.decode(raw | {field: word}), field) for word in ("yes", "no")]
    assert values == [True, False]


@pytest.mark.parametrize("kind", [kind for kind in opcodes.ALL if "iallocator" in kind.__struct_fields__])
def test_an_allocator_may_be_a_dot_for_the_default(kind: type[opcodes.Opcode]) -> None:
    required = {"node_name": "n1", "instance_name": "vm1", "group_name": "g1", "mode": "all"}
    if kind is opcodes.InstanceReplaceDisks:
        required["mode"] = "replace_new_secondary"
    raw = {field.name: required[field.name] for field in msgspec.structs.fields(kind) if field.required}
    op = opcodes.decode(raw | {"OP_ID": str(kind.__struct_config__.tag), "iallocator": "."})
    assert opcodes.encode(op)["iallocator"] == "."


@pytest.mark.parametrize("kind", opcodes.ALL, ids=lambda kind: kind.__name__)
def test_no_number_of_an_opcode_can_be_infinite(kind: type[opcodes.Opcode]) -> None:
    assert floats.unbounded(kind) == []


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "Infinity", -1])
@pytest.mark.parametrize("field", ["vcpu-ratio", "spindle-ratio"])
def test_a_ratio_is_a_number_from_0(field: str, text: str | int) -> None:
    with pytest.raises(errors.InvalidError, match=f"ipolicy.{field}: must be at "):
        opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipolicy": {field: text}})


def test_text_is_not_taken_for_numbers_where_text_is_wanted() -> None:
    raw = CREATE | {"osparams": {"release": "08"}, "hvparams": {"kernel_args": "1"}, "disks": [{"size": "20"}]}
    op = opcodes.decode(raw | {"comment": "yes", "nics": [{"network": "null"}]})
    assert isinstance(op, opcodes.InstanceCreate)
    assert (op.osparams, op.hvparams, op.disks[0].size) == ({"release": "08"}, {"kernel_args": "1"}, "20")
    assert (op.comment, op.nics[0].network) == ("yes", "null")


def test_only_what_differs_from_the_default_is_written() -> None:
    assert opcodes.encode(opcodes.TestDelay(duration=1.0, repeat=0, on_master=True)) == DELAY


def test_a_summary_has_the_object_that_the_opcode_is_about() -> None:
    assert opcodes.InstanceCreate(instance_name="inst1").summary == "INSTANCE_CREATE(inst1)"
    assert opcodes.ClusterVerify().summary == "CLUSTER_VERIFY"


def test_an_opcode_is_json_with_its_op_id() -> None:
    assert json.loads(msgspec.json.encode(opcodes.NodeRemove(node_name="n1"))) == {
        "OP_ID": "OP_NODE_REMOVE",
        "node_name": "n1",
    }


FOREIGN_FIELDS = {
    "snode": None,
    "wait_for_sync": True,
    "ip_check": True,
    "name_check": False,
    "compress": "none",
}


def test_fields_of_other_clients_that_ask_for_nothing_are_let_pass_and_forgotten() -> None:
    op = opcodes.decode(
        CREATE | FOREIGN_FIELDS | {"osparams_private": {}, "forthcoming": False, "identify_defaults": "no"}
    )
    assert op == opcodes.decode(CREATE)
    verify = opcodes.decode({"OP_ID": "OP_CLUSTER_VERIFY", "skip_checks": ["nplusone_mem"], "ignore_errors": []})
    assert verify == opcodes.decode({"OP_ID": "OP_CLUSTER_VERIFY"})


@pytest.mark.parametrize(
    ("field", "value", "about"),
    [
        ("forthcoming", True, "only planned"),
        ("instance_communication", True, "a network between the instance and its node"),
    ],
)
def test_fields_of_other_clients_that_ask_for_what_is_not_built_are_refused(
    field: str, value: object, about: str
) -> None:
    with pytest.raises(errors.InvalidError, match=f"OP_INSTANCE_CREATE: {field} is not supported: .*{about}"):
        opcodes.decode(CREATE | {field: value})


def test_a_field_of_another_opcode_is_unknown_still() -> None:
    with pytest.raises(errors.InvalidError, match="snode"):
        opcodes.decode(DELAY | {"snode": None})


def test_an_opcodes_own_fields_count_first() -> None:
    for kind in opcodes.ALL:
        foreign_fields = opcodes.FOREIGN.get(str(kind.__struct_config__.tag), {})
        assert not foreign_fields.keys() & set(kind.__struct_fields__)
