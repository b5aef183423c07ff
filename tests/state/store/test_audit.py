"""The audit of a store on a simulated machine: what becomes an entry, what passes the filter, and what changed."""

from typing import Any

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import access, job, opcodes
from gantry.runtime import simulated
from gantry.state.files import export
from gantry.state.journal import history
from gantry.state.objects import snapshot
from gantry.state.store import audit, transaction

ALICE = access.Subject(user="alice", door="rapi", is_admin=True, peer="192.0.2.7")
BOB = access.Subject(user="bob")
SETUP = transaction.Cause(reason="set up")


class AuditedStore:
    """A store with its audit."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.machine = world.machine("one")
        self.store = build.new_store(world, self.machine)
        past = history.History(self.machine, build.WHERE, lambda: self.store.durable)
        self.audit = audit.Audit(self.store, past)
        self.jobs = 0

    def commit(self, *changes: snapshot.Change, cause: transaction.Cause = SETUP) -> None:
        build.on(self.world, self.machine, self.store.commit(changes, cause))

    def run(
        self, op: opcodes.AnyOpcode, *changes: snapshot.Change, by: access.Subject | None = ALICE, **more: Any
    ) -> int:
        """Store a job as the queue does: queued, running, its changes, ended; return its number."""
        self.jobs += 1
        step = job.Step(input=op)
        queued = job.Job(id=self.jobs, ops=(step,), submitter=by)
        states: list[job.Job] = [queued]
        for status in (job.Status.RUNNING, more.pop("status", job.Status.SUCCESS)):
            step = msgspec.structs.replace(step, status=status, right=more.get("right", "administrator"))
            states.append(msgspec.structs.replace(queued, ops=(step,)))
        queue = transaction.Cause(reason="job queue")
        for state in states[:2]:
            self.commit(snapshot.Put(state), cause=queue)
        if changes:
            self.commit(*changes, cause=transaction.Cause(job=self.jobs, opcode=op.op_id))
        self.commit(snapshot.Put(states[2]), cause=queue)
        return self.jobs

    def entries(self, *, limit: int = 100, **question: Any) -> list[audit.Entry]:
        answer = build.on(self.world, self.machine, self.audit.entries(audit.Question(**question), limit=limit))
        return [entry for entry in answer.entries if entry.job or entry.user]


def changed(value: Any, **fields: object) -> Any:
    return msgspec.structs.replace(value, serial_no=value.serial_no + 1, **fields)


def test_an_entry_is_a_job_with_its_submitter_its_right_and_its_changes() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        op = opcodes.InstanceRename(instance_name="inst1", new_name="new1", reason=(("gnt:client", "order 17", 1),))
        audited_store.commit(*build.put(build.vm(1)))
        audited_store.run(op, *build.put(changed(build.vm(1), name="new1")))
        entry = audited_store.entries(objects=frozenset({"new1"}))[-1]
        assert (entry.job, entry.user, entry.door, entry.peer) == (1, "alice", "rapi", "192.0.2.7")
        assert (entry.right, entry.status, entry.reason) == ("administrator", "success", "order 17")
        assert (entry.what, entry.named) == ("INSTANCE_RENAME(inst1)", "gnt:client")
        assert entry.ops[0]["new_name"] == "new1"
        (change,) = entry.changes
        assert (change.kind, change.name, change.what) == ("instance", "new1", "changed")
        assert change.fields == (audit.Field("name", "inst1", "new1"),)


def test_a_job_that_changes_nothing_and_one_that_fails_are_entries() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.run(opcodes.InstanceReboot(instance_name="inst1", reboot_type="hard"))
        audited_store.run(opcodes.InstanceRemove(instance_name="inst1"), status=job.Status.ERROR)
        assert [(entry.what, entry.status, entry.changes) for entry in audited_store.entries()] == [
            ("INSTANCE_REBOOT(inst1)", "success", ()),
            ("INSTANCE_REMOVE(inst1)", "error", ()),
        ]


def test_a_job_in_one_transaction_is_one_entry() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        step = job.Step(input=opcodes.InstanceRemove(instance_name="inst1"), status=job.Status.SUCCESS)
        ended = job.Job(id=1, ops=(step,), submitter=BOB)
        audited_store.commit(
            *build.put(build.vm(1), ended), cause=transaction.Cause(job=1, opcode="OP_INSTANCE_REMOVE")
        )
        ((entry),) = audited_store.entries()
        assert (entry.job, entry.user, [change.what for change in entry.changes]) == (1, "bob", ["added"])


def test_a_running_job_is_an_entry_too() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.run(opcodes.InstanceReboot(instance_name="inst1", reboot_type="hard"), status=job.Status.RUNNING)
        assert [entry.status for entry in audited_store.entries()] == ["running"]


def test_what_is_done_without_a_job_has_its_user_too() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        cause = transaction.Cause(reason="serial console of instance inst1 opened", submitter=BOB, right="own")
        audited_store.commit(cause=cause)
        for question in ({}, {"user": "bob"}, {"objects": frozenset({"inst1"})}):
            ((entry),) = audited_store.entries(**question)
            assert (entry.user, entry.what, entry.right) == ("bob", cause.reason, "own")
        assert audited_store.entries(user="alice") == []


@pytest.mark.parametrize("name", ["inst1", "i1", "inst2"])
def test_the_filter_by_object_finds_names_keys_and_what_opcodes_name(name: str) -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.run(opcodes.InstanceRemove(instance_name="other"))
        number = audited_store.run(
            opcodes.InstanceReboot(instance_name="inst2", reboot_type="hard"), *build.put(build.vm(1))
        )
        assert [entry.job for entry in audited_store.entries(objects=frozenset({name}))] == [number]


def test_names_of_a_filter_are_those_of_the_present_object() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.commit(*build.put(build.vm(1)))
        state = audited_store.store.durable
        assert audit.names(state, "inst1") == audit.names(state, "i1") == {"inst1", "i1"}
        assert audit.names(state, "gone") == {"gone"}


def test_the_filters_by_user_and_time() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        first = audited_store.run(opcodes.InstanceRemove(instance_name="a"), by=ALICE)
        build.on(world, audited_store.machine, audited_store.machine.clock.sleep(100.0))
        middle = audited_store.machine.clock.now()
        build.on(world, audited_store.machine, audited_store.machine.clock.sleep(100.0))
        second = audited_store.run(opcodes.InstanceRemove(instance_name="a"), by=BOB)
        assert [entry.job for entry in audited_store.entries(user="alice")] == [first]
        assert [entry.job for entry in audited_store.entries(user="bob")] == [second]
        assert [entry.job for entry in audited_store.entries(since=middle)] == [second]
        assert [entry.job for entry in audited_store.entries(until=middle)] == [first]
        assert [entry.job for entry in audited_store.entries(limit=1)] == [second]


def test_who_may_not_do_everything_is_not_found_by_a_name_in_a_reason() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        reason = (("gnt:neutron:carol", "", 1),)
        audited_store.run(opcodes.InstanceRemove(instance_name="a", reason=reason), by=BOB)
        number = audited_store.run(opcodes.InstanceRemove(instance_name="a", reason=reason), by=ALICE)
        assert [entry.job for entry in audited_store.entries(user="carol")] == [number]


def test_the_items_of_a_list_are_compared_by_uuid() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        vm = build.vm(1, ip="10.0.0.1")
        nic = vm.nics[0]
        second = msgspec.structs.replace(nic, uuid="nic-2", mac="aa:00:00:00:00:02", ip=("10.0.0.2",))
        both = changed(vm, nics=(second, nic))
        audited_store.commit(*build.put(vm))
        audited_store.run(opcodes.InstanceSetParams(instance_name="inst1"), *build.put(both))
        audited_store.run(opcodes.InstanceSetParams(instance_name="inst1"), *build.put(changed(both, nics=(second,))))
        first, last = (entry.changes[0].fields or () for entry in audited_store.entries())
        assert {field.path.rsplit(".", 1)[0] for field in first} == {"nics.0"}
        assert audit.Field("nics.0.ip", None, ["10.0.0.2"]) in first
        assert audit.Field("nics.1.ip", ["10.0.0.1"], None) in last


def test_secrets_are_never_in_an_answer() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.commit(*build.put(build.vm(1)))
        private = changed(build.vm(1), osparams_private={"root": "hidden-1"})
        op = opcodes.InstanceSetParams(instance_name="inst1", osparams_private={"root": "hidden-1"})
        audited_store.run(op, *build.put(private))
        url = changed(build.OWNER, ipam_database="postgresql://gantry:hidden-2@db/ipam")
        audited_store.run(opcodes.ClusterSetParams(), *build.put(url))
        entries = audited_store.entries()
        text = msgspec.json.encode(entries).decode()
        assert "hidden" not in text
        assert text.count(export.BLANK) == 2
        assert [change.fields[0].path for entry in entries for change in entry.changes if change.fields] == [
            "osparams_private.root",
            "ipam_database",
        ]


def test_long_lists_are_counted_and_many_fields_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FIELD_LIMIT", 2)
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.commit(*build.put(build.vm(1)))
        tags = tuple(f"t{number}" for number in range(audit.LIST_LIMIT + 1))
        more = changed(build.vm(1), tags=tags, hvparams={"a": 1, "b": 2})
        audited_store.run(opcodes.InstanceSetParams(instance_name="inst1"), *build.put(more))
        ((change),) = audited_store.entries()[0].changes
        assert (len(change.fields or ()), change.more_fields) == (2, 1)
        assert audit.differences(build.vm(1), changed(build.vm(1), tags=tags)) == [
            audit.Field("tags", None, f"{audit.LIST_LIMIT + 1} values")
        ]


def test_the_fields_of_a_change_are_in_order() -> None:
    after = changed(build.vm(1), hvparams=dict.fromkeys("zebra", 1), tags=("t",), primary_node="n1")
    paths = [field.path for field in audit.differences(build.vm(1), after)]
    assert paths == ["hvparams.a", "hvparams.b", "hvparams.e", "hvparams.r", "hvparams.z", "primary_node", "tags"]


def test_objects_that_a_field_names_by_uuid_have_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "UUID_LENGTH", 2)
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.commit(*build.put(build.vm(1)))
        audited_store.run(
            opcodes.InstanceMigrate(instance_name="inst1"), *build.put(changed(build.vm(1), primary_node="n1"))
        )
        ((change),) = audited_store.entries()[0].changes
        assert change.fields == (audit.Field("primary_node", "node0", "node1"),)


def test_what_the_journal_no_longer_has_is_not_guessed() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        number = audited_store.run(opcodes.InstanceSetParams(instance_name="inst1"), *build.put(changed(build.vm(1))))
        ((entry),) = audited_store.entries(objects=frozenset({"inst1"}))
        assert (entry.job, entry.changes[0].what, entry.changes[0].fields) == (number, "changed", None)


def test_a_removed_object_has_its_name() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.commit(*build.put(build.vm(1)))
        audited_store.run(opcodes.InstanceRemove(instance_name="inst1"), snapshot.Delete("instances", "i1"))
        ((change),) = audited_store.entries()[0].changes
        assert (change.name, change.what) == ("inst1", "removed")


def test_an_edited_journal_is_noticed() -> None:
    with simulated.World(seed=1) as world:
        audited_store = AuditedStore(world)
        audited_store.run(opcodes.InstanceRemove(instance_name="inst1"))
        path = build.sections(audited_store.machine)[-1]
        text = audited_store.machine.disk.read(path)
        build.on(
            world, audited_store.machine, audited_store.machine.disk.write(path, text.replace(b'"alice"', b'"mallo"'))
        )
        with pytest.raises(errors.ConfigurationError):
            audited_store.entries()
