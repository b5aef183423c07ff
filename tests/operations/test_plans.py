"""Plans are values: the same facts give the same plan, its calls can be recorded, and what was checked is planned."""

from typing import Any, cast

import msgspec
import pytest
from msgspec import structs
from tests.operations import build
from tests.operations.test_every_unit import DESTROY, SAMPLES, TO_DRBD, Break, Trial, _values

from gantry import errors, security
from gantry.daemons import units
from gantry.jobs import execution
from gantry.model import job, opcodes
from gantry.operations import base, draws
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states


class Fixed:
    """The environment of a unit with other inputs."""

    def __init__(self, environment: base.Environment, inputs: draws.Inputs) -> None:
        self.inputs = inputs
        self._environment = environment

    def __getattr__(self, name: str) -> object:
        return getattr(self._environment, name)


def _fixed(unit: execution.AnyUnit, inputs: draws.Inputs) -> base.Environment:
    return cast("base.Environment", Fixed(unit.environment, inputs))


def plans(op: opcodes.Opcode) -> tuple[base.Plan, base.Plan]:
    """Return two plans that the unit made of one snapshot, the same facts and the same inputs."""
    both: list[base.Plan] = []
    original = units.REGISTRY[type(op)]

    def plan(unit: execution.AnyUnit, snapshot: states.Snapshot, facts: object) -> base.Plan:
        source = unit.environment.inputs
        recorder = draws.Recorder(source)
        both.append(original(unit.op, _fixed(unit, recorder.inputs)).plan(snapshot, facts))
        both.append(original(unit.op, _fixed(unit, recorder.drawn().replay(source))).plan(snapshot, facts))
        return both[0]

    trial = Trial(op, _values(op))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cast("dict[Any, Any]", units.REGISTRY), type(op), type("Twice", (original,), {"plan": plan}))
        done = trial.run(Break(-1, after=False))
    assert done.status is job.Status.SUCCESS, done.ops[0].result
    first, second = both
    return first, second


ALL = [pytest.param(op, id=f"{index}-{op.op_id}") for index, op in enumerate((*SAMPLES, DESTROY))]


@pytest.mark.parametrize("op", ALL)
def test_the_same_facts_and_inputs_give_the_same_plan(op: opcodes.Opcode) -> None:
    first, second = plans(op)
    assert list(first.steps) == list(second.steps)
    assert list(first.after) == list(second.after)
    assert list(first.changes) == list(second.changes)
    assert list(first.lines) == list(second.lines)


@pytest.mark.parametrize("op", ALL)
def test_what_a_step_calls_can_be_recorded_and_read_again(op: opcodes.Opcode) -> None:
    plan, _ = plans(op)
    for step in (*plan.steps, *plan.after):
        for action in (*step.do, *step.undo):
            if isinstance(action, base.Command):
                call = action.call
                ignores = action.ignores and action.ignores.__name__
                record = (action.target, type(call).__name__, call, ignores, action.warning)
                target, name, fields, error, warning = msgspec.json.decode(msgspec.json.encode(record))
                read = base.Command(
                    msgspec.convert(target, targets.Target),
                    msgspec.convert(fields, getattr(calls, name)),
                    error and getattr(errors, error),
                    warning,
                )
                assert read == action
                assert str(action) == f"{call.procedure()} on {action.target.name}"
            else:
                assert action.reason


@pytest.mark.parametrize("hidden", ["osparams_secret", "join_token"])
async def test_no_command_or_printed_plan_contains_what_only_the_job_may_know(hidden: str) -> None:
    lab = build.MemoryCluster()
    op: opcodes.Opcode = opcodes.InstanceCreate(
        instance_name="new",
        os_type="other",
        disk_template="file",
        disks=(opcodes.DiskSpec(size=64),),
        osparams_secret={"greeting": "keep-quiet"},
    )
    if hidden == "join_token":
        token = security.JoinToken("keep-quiet", "certificate").encode()
        op = opcodes.NodeAdd(node_name="new", primary_ip="203.0.113.99", join_token=token)
        lab.nodes.machines["203.0.113.99"] = build.Machine(joined=False)
    plan = await lab.plan(op)
    assert plan.steps
    for step in (*plan.steps, *plan.after):
        assert "keep-quiet" not in repr(step)
        for action in (*step.do, *step.undo):
            if isinstance(action, base.Command):
                assert b"keep-quiet" not in msgspec.json.encode(action.call)


def test_a_unit_cannot_be_changed() -> None:
    unit = build.MemoryCluster().unit(opcodes.InstanceStartup(instance_name="vm1"))
    with pytest.raises(AttributeError, match="units are frozen"):
        unit.op = opcodes.InstanceStartup(instance_name="vm2")


async def test_the_nic_that_the_node_checked_is_the_one_that_is_created() -> None:
    lab = build.MemoryCluster()
    nic = opcodes.NicSpec(ip=("pool",), network="net1")
    disk = opcodes.DiskSpec(size=64)
    await lab.run(
        opcodes.InstanceCreate(
            instance_name="new", os_type="plain", disk_template="file", disks=(disk,), nics=(nic, nic)
        )
    )
    (checked,) = lab.nodes.calls_of(calls.NicValidate)
    vm = lab.state.instance("new")
    assert [(nic.uuid, nic.mac) for nic in checked.nics] == [(nic.uuid, nic.mac) for nic in vm.nics]


async def test_the_nic_that_the_node_checked_is_the_one_that_is_added() -> None:
    lab = build.MemoryCluster()
    change = ["add", {"ip": "pool", "network": "net1"}]
    await lab.run(opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [change]}))
    (checked,) = lab.nodes.calls_of(calls.NicValidate)
    added = lab.state.instance("vm1").nics[-1]
    assert [(nic.uuid, nic.mac) for nic in checked.nics] == [(added.uuid, added.mac)]


TO_MIRROR = [
    pytest.param(op, id=name)
    for name, op in (
        (
            "create",
            opcodes.InstanceCreate(
                instance_name="new",
                os_type="plain",
                disk_template="drbd",
                disks=(opcodes.DiskSpec(size=64),),
                pnode="node1",
                snode="node2",
                start=False,
            ),
        ),
        (
            "add",
            opcodes.decode(
                {
                    "OP_ID": "OP_INSTANCE_SET_PARAMS",
                    "instance_name": "mirrored",
                    "disks": [["add", {"size": 8}]],
                    "nics": [["add", {"ip": "pool", "network": "net1"}]],
                }
            ),
        ),
        ("convert", structs.replace(TO_DRBD, remote_node="node2")),
    )
]


@pytest.mark.parametrize("op", TO_MIRROR)
def test_the_mirrored_disks_that_the_nodes_checked_are_the_ones_that_are_made(op: opcodes.Opcode) -> None:
    trial = Trial(op, _values(op))
    done = trial.run(Break(-1, after=False))
    assert done.status is job.Status.SUCCESS, done.ops[0].result
    checked = [disk for call in trial.nodes.calls_of(calls.BlockdevPlace) for disk in call.disks]
    created_disks = [call.disk for call in trial.nodes.calls_of(calls.BlockdevCreate)]
    assert checked
    assert all(disk in created_disks for disk in checked)


@pytest.mark.parametrize(
    ("first", "second", "ignores"),
    [
        (None, errors.RemoteError, errors.RemoteError),
        (errors.RemoteError, errors.GantryError, errors.GantryError),
        (errors.GantryError, errors.RemoteError, errors.GantryError),
    ],
)
def test_an_action_never_ignores_less_than_before(
    first: type[errors.GantryError] | None, second: type[errors.GantryError], ignores: type[errors.GantryError]
) -> None:
    target = targets.Target(uuid="n1", name="node1", address="203.0.113.1", port=1811)
    (action,) = base.tolerant((base.Command(target, calls.NodeLeave(), first),), second)
    assert action.ignores is ignores
