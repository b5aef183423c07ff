"""What recovery refuses, with the file and what to do; the journal's own damage is in ``test_journal``."""

import pytest
from msgspec import structs
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.runtime import simulated
from gantry.state.files import jobfiles
from gantry.state.journal import record
from gantry.state.objects import snapshot
from gantry.state.store import transaction


def _stopped(world: simulated.World) -> tuple[simulated.SimulatedRuntime, transaction.Store]:
    machine = world.machine("one")
    store = build.new_store(world, machine)
    build.on(world, machine, store.commit(build.put(build.vm(1), build.queued(1)), build.CAUSE))
    world.kill("one")
    return machine, store


def test_a_configuration_that_the_disk_does_not_return_is_reported_with_the_disks_error() -> None:
    with simulated.World(seed=1) as world:
        machine, _ = _stopped(world)
        machine.disk.fail_read = 1.0
        with pytest.raises(errors.ConfigurationError, match=f"damaged: {build.WHERE.config}: Input/output") as refused:
            build.opened(world, machine)
        assert "gnt-cluster recover --from NODE" in refused.value.hint
        machine.disk.fail_read = 0.0
        assert set(build.opened(world, machine).snapshot.instances) == {"i1"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (snapshot.Delete("instances", "i9"), "no such object in instances: i9"),
        (snapshot.Put(build.vm(2, ip="192.0.2.1")), "address 192.0.2.1 is outside every subnet of network net1"),
        (snapshot.Put(structs.replace(build.node(3), group="g9")), "no such node group: g9"),
    ],
)
def test_a_record_that_does_not_apply_is_damage_of_its_section(change: snapshot.Change, what: str) -> None:
    with simulated.World(seed=1) as world:
        machine, store = _stopped(world)
        end = store.position
        serial = end.serial + 1
        impossible = record.Record(serial=serial, time=1.0, epoch=end.epoch, cause=build.CAUSE, changes=(change,))

        async def append() -> None:
            file = await machine.disk.append_file(build.sections(machine)[-1])
            await file.append(frame.pack(end.digest, [record.encode(impossible)]))
            file.close()

        build.on(world, machine, append())
        path = build.sections(machine)[-1]
        with pytest.raises(
            errors.ConfigurationError, match=f"damaged: {path}: record {serial} does not apply: .*{what}"
        ):
            build.opened(world, machine)


def test_a_file_of_a_job_in_the_form_of_an_older_version_is_as_the_next_checkpoint_expects_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encode = jobfiles.encode
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        with monkeypatch.context() as older:
            older.setattr(jobfiles, "encode", lambda job: encode(job) + b"\n")
            store = build.new_store(world, machine)
            build.on(world, machine, store.commit(build.put(build.queued(1)), build.CAUSE))
            build.on(world, machine, store.close())
        present = build.opened(world, machine)
        build.on(world, machine, present.commit(build.put(build.vm(1)), build.CAUSE))
        build.on(world, machine, present.close())
        assert build.opened(world, machine).snapshot.jobs == store.snapshot.jobs
    assert "rewritten from record" not in caplog.text
