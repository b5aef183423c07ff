"""Plans are values: the same facts give the same plan, its calls can be recorded, and what was checked is planned."""

from typing import Any, cast

import msgspec
import pytest
from tests.operations import build
from tests.operations.test_every_unit import DESTROY, SAMPLES, Break, Trial, _values

from gantry.daemons import units
from gantry.jobs import processor
from gantry.model import job, opcodes
from gantry.operations import base
from gantry.rpc import calls, targets
from gantry.state import snapshot as states


class Fixed:
    """The environment of a unit with other inputs."""

    def __init__(self, environment: base.Environment, inputs: base.Inputs) -> None:
        self.inputs = inputs
        self._environment = environment

    def __getattr__(self, name: str) -> object:
        return getattr(self._environment, name)


def _fixed(unit: processor.AnyUnit, inputs: base.Inputs) -> base.Environment:
    return cast("base.Environment", Fixed(unit.environment, inputs))


def plans(op: opcodes.Opcode) -> tuple[base.Plan, base.Plan]:
    """Return two plans that the unit made of one snapshot, the same facts and the same inputs."""
    made: list[base.Plan] = []
    original = units.REGISTRY[type(op)]

    def plan(unit: processor.AnyUnit, snapshot: states.Snapshot, facts: object) -> base.Plan:
        source = unit.environment.inputs
        recorder = base.Recorder(source)
        made.append(original(unit.op, _fixed(unit, recorder.inputs)).plan(snapshot, facts))
        made.append(original(unit.op, _fixed(unit, recorder.drawn().replay(source))).plan(snapshot, facts))
        return made[0]

    trial = Trial(op, _values(op))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cast("dict[Any, Any]", units.REGISTRY), type(op), type("Twice", (original,), {"plan": plan}))
        done = trial.run(Break(-1, after=False))
    assert done.status is job.Status.SUCCESS, done.ops[0].result
    first, second = made
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
                call = msgspec.json.decode(msgspec.json.encode(action.call), type=type(action.call))
                assert call == action.call
                assert getattr(calls, type(call).__name__) is type(call)
                target = msgspec.json.decode(msgspec.json.encode(action.target), type=targets.Target)
                assert target == action.target
                assert str(action) == f"{call.procedure()} on {target.name}"
            else:
                assert action.reason


def test_a_unit_cannot_be_changed() -> None:
    unit = build.House().unit(opcodes.InstanceStartup(instance_name="vm1"))
    with pytest.raises(AttributeError, match="units are frozen"):
        unit.op = opcodes.InstanceStartup(instance_name="vm2")


async def test_the_nic_that_the_node_checked_is_the_one_that_is_created() -> None:
    house = build.House()
    nic = opcodes.NicSpec(ip=("pool",), network="net1")
    disk = opcodes.DiskSpec(size=64)
    await house.run(
        opcodes.InstanceCreate(
            instance_name="new", os_type="plain", disk_template="file", disks=(disk,), nics=(nic, nic)
        )
    )
    (checked,) = house.nodes.asked(calls.NicValidate)
    vm = house.state.instance("new")
    assert [(nic.uuid, nic.mac) for nic in checked.nics] == [(nic.uuid, nic.mac) for nic in vm.nics]


async def test_the_nic_that_the_node_checked_is_the_one_that_is_added() -> None:
    house = build.House()
    change = ["add", {"ip": "pool", "network": "net1"}]
    await house.run(opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [change]}))
    (checked,) = house.nodes.asked(calls.NicValidate)
    added = house.state.instance("vm1").nics[-1]
    assert [(nic.uuid, nic.mac) for nic in checked.nics] == [(added.uuid, added.mac)]


def test_draws_are_repeated_in_order_and_then_new() -> None:
    numbers = iter(range(100))
    source = base.Inputs(now=1.0, uuid=lambda: f"u{next(numbers)}", below=lambda _: next(numbers))
    recorder = base.Recorder(source)
    drawn = [recorder.inputs.uuid(), recorder.inputs.below(10), recorder.inputs.uuid()]
    again = recorder.drawn().replay(source)
    assert [again.uuid(), again.below(10), again.uuid()] == drawn
    assert again.uuid() not in drawn
    assert again.below(10) not in drawn
    assert recorder.drawn().replay(source).below(1) != drawn[1]
