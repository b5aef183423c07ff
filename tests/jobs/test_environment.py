"""What a unit has around it that no other test of jobs asks for."""

from typing import cast

from tests.jobs.simulated_jobs import Script, SimulatedJobs, op

from gantry.jobs import environment, records
from gantry.operations import base


def test_an_opcode_that_only_reads_is_never_canceled_and_keeps_its_warnings_alone() -> None:
    log = environment.ReadLog()
    # What it has besides its log is not used here.
    around = environment.Environment(cast("environment.Services", None), cast("records.Store", None), log)
    with around.stoppable() as canceled:
        assert canceled() is False
    log.info("nothing special")
    log.progress("10 %")
    log.warning("node2 does not answer")
    assert log.warnings == ["node2 does not answer"]


def test_a_master_without_a_database_of_addresses_fails_the_job_that_needs_it(lab: SimulatedJobs) -> None:
    async def inspect(around: base.Environment) -> None:
        await around.addresses.close()

    lab.scripts["asks"] = Script(inspect=inspect)

    async def scenario() -> list[str]:
        return await lab.wait(await lab.queue.submit([op("asks")]))

    assert lab.run(scenario()) == ["error"]
    assert "this master has no interface to an address database" in str(lab.job(1).ops[0].result)
