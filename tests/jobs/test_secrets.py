"""Secret parameters of a job: kept in memory while the daemon runs, and never stored."""

from typing import cast

import msgspec
from tests.jobs.simulated_jobs import SimulatedJobs, op

from gantry.jobs import execution
from gantry.model import lock, opcodes
from gantry.operations import base
from gantry.state.objects import snapshot as states

OP = opcodes.InstanceReinstall(instance_name="vm", osparams_secret={"token": "s3cret"})


def reinstalls(lab: SimulatedJobs) -> list[opcodes.InstanceReinstall]:
    """Record the opcodes that run."""
    seen: list[opcodes.InstanceReinstall] = []

    class Unit(base.Unit[opcodes.InstanceReinstall, None]):
        OPCODE = opcodes.InstanceReinstall

        def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
            return {}

        async def inspect(self, snapshot: states.Snapshot) -> None:
            seen.append(self.op)

        def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
            return base.Plan()

    units = cast("dict[type[opcodes.Opcode], type[execution.AnyUnit]]", lab.processor._units)
    units[opcodes.InstanceReinstall] = cast("type[execution.AnyUnit]", Unit)
    return seen


def test_a_job_has_its_secrets_and_the_state_has_not(lab: SimulatedJobs) -> None:
    seen = reinstalls(lab)

    async def scenario() -> list[str]:
        return await lab.wait(await lab.queue.submit([op(seconds=1), OP]))

    assert lab.run(scenario()) == ["success"]
    assert seen == [OP]
    assert lab.memory.stored
    assert b"s3cret" not in msgspec.json.encode(lab.memory.stored)
    assert not lab.book.secrets


def test_a_job_whose_secrets_were_lost_with_the_daemon_fails(lab: SimulatedJobs) -> None:
    seen = reinstalls(lab)

    async def scenario() -> list[str]:
        number = await lab.queue.submit([op(seconds=5), OP])
        lab.book.secrets.clear()
        return await lab.wait(number)

    assert lab.run(scenario()) == ["error"]
    assert seen == []
    assert "were lost when the master daemon ended" in str(lab.job(1).ops[1].result)
