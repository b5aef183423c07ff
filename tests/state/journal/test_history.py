"""The past in the journal: records in both directions, and the owners of each address."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.state import build

from gantry import errors
from gantry.lib_files import frame, journal_names
from gantry.model import instance, network
from gantry.operations.query import addresses
from gantry.runtime import simulated
from gantry.state.journal import history, owners, record
from gantry.state.objects import snapshot
from gantry.state.store import transaction

ADDRESS = "10.0.0.7"


class TimedStore:
    """A store on a simulated machine, whose every commit is a job a minute later."""

    def __init__(self, world: simulated.World, *, limits: transaction.Limits | None = None) -> None:
        self.world, self.machine = world, world.machine("one")
        self.store = build.new_store(world, self.machine, limits=limits)
        self.job = 0

    def commit(self, *changes: snapshot.Change) -> float:
        """Commit as the next job; return the time of the commit."""
        self.job += 1
        cause = record.Cause(job=self.job, opcode="OP_X", user="gnt:user", reason=f"reason {self.job}")

        async def work() -> float:
            await self.machine.clock.sleep(60)
            await self.store.commit(changes, cause)
            return self.machine.clock.now()

        return build.on(self.world, self.machine, work())

    def ask(self, name: str = "net1", *, address: str = "", at: float | None = None, limit: int = 100) -> owners.Past:
        past = history.History(self.machine, build.WHERE, lambda: self.store.durable)
        return build.on(self.world, self.machine, past.addresses(name, address=address, moment=at, limit=limit))

    def drop_first_section(self) -> None:
        build.on(self.world, self.machine, self.machine.disk.remove(build.sections(self.machine)[0]))


def put(*vms: instance.Instance) -> list[snapshot.Change]:
    return [snapshot.Put(vm) for vm in vms]


def gone(number: int) -> snapshot.Change:
    return snapshot.Delete("instances", f"i{number}")


def holdings(past: owners.Past) -> list[tuple[str, str, int, int]]:
    return [(holding.address, holding.instance, holding.given.job, holding.freed.job) for holding in past.holdings]


def test_a_moment_before_the_first_kept_record_has_no_owners_and_no_network() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world, limits=transaction.Limits(records=2))
        before = timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        for number in (2, 3, 4):
            timed_store.commit(*put(build.vm(number)))
        timed_store.drop_first_section()
        timed_store.drop_first_section()
        past = timed_store.ask(at=before)
        assert past.since is not None
        assert before < past.since
        assert (past.holdings, past.net) == ((), None)
        # No record changes the network, so that it has been as it is since before the first one.
        later = timed_store.ask(at=past.since)
        assert later.net == build.NET
        assert holdings(later) == [(ADDRESS, "inst1", 0, 0)]


def test_a_network_that_changed_after_the_moment_is_not_guessed() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world, limits=transaction.Limits(records=2))
        for number in (1, 2, 3, 4):
            moment = timed_store.commit(*put(build.vm(number)))
        timed_store.drop_first_section()
        changed = timed_store.commit(snapshot.Put(structs.replace(build.NET, serial_no=2, tags=("new",))))
        assert timed_store.ask(at=moment).net is None
        assert timed_store.ask(at=changed).net == structs.replace(build.NET, serial_no=2, tags=("new",))


def test_every_owner_of_an_address_is_reported_with_times_and_jobs() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        allocated_at = timed_store.commit(*put(build.vm(1, ip=ADDRESS), build.vm(2, ip="10.0.0.8")))
        freed = timed_store.commit(gone(1))
        again = timed_store.commit(*put(build.vm(3, ip=ADDRESS)))
        past = timed_store.ask(address=ADDRESS)
        assert holdings(past) == [(ADDRESS, "inst1", 1, 2), (ADDRESS, "inst3", 3, 0)]
        first, second = past.holdings
        assert first.start == pytest.approx(allocated_at, abs=1)
        assert first.end == pytest.approx(freed, abs=1)
        assert second.start == pytest.approx(again, abs=1)
        assert second.end is None
        assert (first.given.user, first.given.reason, first.freed.reason) == ("gnt:user", "reason 1", "reason 2")


def test_a_change_that_keeps_the_address_is_no_event_and_one_that_moves_it_is() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        timed_store.commit(*put(build.vm(1, ip=ADDRESS, tags=("blue",))))
        timed_store.commit(*put(build.vm(1, ip="10.0.0.9")))
        assert holdings(timed_store.ask()) == [(ADDRESS, "inst1", 1, 3), ("10.0.0.9", "inst1", 3, 0)]


def test_a_port_has_an_address_as_an_instance_has() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        port = network.Port(uuid="p", name="", network="net", mac="aa:00:00:00:00:aa", ip=(ADDRESS,))
        timed_store.commit(snapshot.Put(port))
        timed_store.commit(*put(build.vm(1, ip=ADDRESS)), snapshot.Delete("ports", "p"))
        timed_store.commit(gone(1), snapshot.Put(structs.replace(port, name="vip")))
        past = timed_store.ask()
        assert holdings(past) == [(ADDRESS, "p", 1, 2), (ADDRESS, "inst1", 2, 3), (ADDRESS, "vip", 3, 0)]
        assert [holding.noun for holding in past.holdings] == ["port", "instance", "port"]


def test_an_address_may_pass_from_one_instance_to_another_in_one_record() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        timed_store.commit(*put(build.vm(2, ip=ADDRESS)), gone(1))
        assert holdings(timed_store.ask()) == [(ADDRESS, "inst1", 1, 2), (ADDRESS, "inst2", 2, 0)]


def test_at_a_moment_there_is_one_holder_or_none() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        before = timed_store.commit()
        first = timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        second = timed_store.commit(gone(1), *put(build.vm(2, ip=ADDRESS)))
        assert [holdings(timed_store.ask(at=at)) for at in (before, first + 1, second + 1)] == [
            [],
            [(ADDRESS, "inst1", 2, 3)],
            [(ADDRESS, "inst2", 3, 0)],
        ]


def test_the_limit_keeps_the_holdings_that_ended_last() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        for number in range(1, 6):
            timed_store.commit(*put(build.vm(number, ip=ADDRESS)))
            timed_store.commit(gone(number))
        timed_store.commit(*put(build.vm(6, ip=ADDRESS)))
        assert [name for _, name, _, _ in holdings(timed_store.ask(limit=3))] == ["inst4", "inst5", "inst6"]


def test_an_address_may_be_asked_for_in_any_spelling() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        six = network.Network(uuid="six", name="six", subnets=(network.Subnet(uuid="t", cidr="2001:db8::/64"),))
        nic = instance.Nic(uuid="x", mac="aa:00:00:00:00:99", network="six", ip=("2001:db8::7",))
        timed_store.commit(snapshot.Put(six))
        timed_store.commit(
            *put(instance.Instance(uuid="i", name="i", primary_node="n0", hypervisor="kvm", nics=(nic,)))
        )
        assert len(timed_store.ask("six", address="2001:DB8:0:0::7").holdings) == 1
        with pytest.raises(errors.InvalidError, match="not an IP address"):
            timed_store.ask(address="10.0.0.256")


def test_a_network_that_is_gone_is_found_by_the_name_it_had() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        old = network.Network(uuid="old", name="lan", subnets=(network.Subnet(uuid="t", cidr="10.0.0.0/8"),))
        nic = instance.Nic(uuid="x", mac="aa:00:00:00:00:99", network="old", ip=(ADDRESS,))
        timed_store.commit(snapshot.Put(old))
        vm = instance.Instance(uuid="i", name="inst", primary_node="n0", hypervisor="kvm", nics=(nic,))
        there = timed_store.commit(*put(vm))
        timed_store.commit(snapshot.Delete("instances", "i"), snapshot.Delete("networks", "old"))
        new = timed_store.commit(snapshot.Put(network.Network(uuid="new", name="lan")))
        assert holdings(timed_store.ask("lan")) == holdings(timed_store.ask("old")) == [(ADDRESS, "inst", 2, 3)]
        then, later = timed_store.ask("lan", at=there + 1).net, timed_store.ask("lan", at=new + 1).net
        assert (then and then.uuid, later and later.uuid) == ("old", "new")
        with pytest.raises(errors.NotFoundError, match="no such network: wan"):
            timed_store.ask("wan")


def test_what_began_before_the_kept_records_has_no_beginning() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world, limits=transaction.Limits(records=2))
        timed_store.commit(*put(build.vm(1, ip=ADDRESS), build.vm(2, ip="10.0.0.8")))
        timed_store.commit()
        known = timed_store.commit(*put(build.vm(3, ip="10.0.0.9")))
        timed_store.commit()
        while build.sections(timed_store.machine)[0] != journal_names.path(build.WHERE.journal, 4):
            timed_store.drop_first_section()
        timed_store.commit(*put(structs.replace(build.vm(2, ip="10.0.0.10"), serial_no=2)))
        past = timed_store.ask()
        assert past.since == pytest.approx(known, abs=1)
        assert [(holding.address, holding.instance, holding.start is None) for holding in past.holdings] == [
            (ADDRESS, "inst1", True),
            ("10.0.0.10", "inst2", True),
            ("10.0.0.9", "inst3", False),
        ]


def filled(world: simulated.World) -> TimedStore:
    timed_store = TimedStore(world, limits=transaction.Limits(records=3))
    for number in range(1, 12):
        timed_store.commit(*put(build.vm(number)))
    assert len(build.sections(timed_store.machine)) > 3
    return timed_store


def serials(timed_store: TimedStore, *, after: int = 0, newest_first: bool = False) -> list[int]:
    records = history.records(timed_store.machine.disk, build.WHERE.journal, after=after, newest_first=newest_first)
    return [entry.serial for entry in records]


def test_records_are_read_both_ways_from_any_serial() -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)
        assert serials(timed_store) == list(range(1, 13))
        assert serials(timed_store, newest_first=True) == list(range(12, 0, -1))
        for after in range(14):
            assert serials(timed_store, after=after) == list(range(after + 1, 13))
            assert serials(timed_store, after=after, newest_first=True) == list(range(12, after, -1))


def test_changes_of_other_kinds_are_left_out() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        timed_store.commit(*put(build.vm(1)), snapshot.Put(build.queued(1)))
        records = list(history.records(timed_store.machine.disk, build.WHERE.journal, kinds={"jobs"}))
        assert [len(entry.changes) for entry in records] == [0, 1]
        assert records[-1].changes == (snapshot.Put(build.queued(1)),)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_changed_byte_or_a_missing_section_is_reported_with_the_file(newest_first: bool) -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)
        middle = build.sections(timed_store.machine)[1]
        timed_store.machine.disk.flip(middle, timed_store.machine.disk.status(middle).size // 2)
        with pytest.raises(errors.ConfigurationError, match=f"{middle}, byte offset"):
            serials(timed_store, newest_first=newest_first)
        build.on(world, timed_store.machine, timed_store.machine.disk.remove(middle))
        with pytest.raises(errors.ConfigurationError, match="chain hash"):
            serials(timed_store, newest_first=newest_first)


def test_a_frame_that_is_just_being_written_is_not_read_and_no_fault() -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)

        async def work() -> None:
            file = await timed_store.machine.disk.append_file(build.sections(timed_store.machine)[-1])
            await file.append(b"0123abcd 99 {half")
            file.close()

        build.on(world, timed_store.machine, work())
        assert serials(timed_store) == list(range(1, 13))


def test_records_that_are_not_durable_yet_are_not_reported() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        earlier = timed_store.store.durable
        timed_store.commit(gone(1))
        durable_records: Sequence[record.Record] = list(history.records(timed_store.machine.disk, build.WHERE.journal))
        question = owners.Question(name="net1", networks=frozenset({"net"}), limit=10)
        assert holdings(owners.holdings(durable_records, question, now=earlier)) == [(ADDRESS, "inst1", 1, 0)]


def _random_changes(chance: random.Random, timed_store: TimedStore) -> None:
    """Commit changes of a network and of a few owners: creations, other addresses, other names, removals."""
    state = timed_store.store.durable
    for _ in range(60):
        if chance.random() < 0.1:
            net = timed_store.store.durable.networks["net"]
            timed_store.commit(
                snapshot.Put(structs.replace(net, serial_no=net.serial_no + 1, description=str(timed_store.job)))
            )
        number, last = chance.randrange(1, 6), chance.randrange(7, 11)
        known = timed_store.store.durable.instances.get(f"i{number}")
        free = ("net", f"10.0.0.{last}") not in timed_store.store.durable.addresses
        if known and chance.random() < 0.3:
            timed_store.commit(gone(number))
        elif known and chance.random() < 0.4:
            name = chance.choice(["first", "second", known.name])
            if ("instances", name) not in timed_store.store.durable.names:
                timed_store.commit(snapshot.Put(structs.replace(known, name=name, serial_no=known.serial_no + 1)))
        elif free:
            vm = build.vm(number, ip=f"10.0.0.{last}")
            if known:
                vm = structs.replace(known, nics=vm.nics, serial_no=known.serial_no + 1)
            timed_store.commit(snapshot.Put(vm))
    assert state is not timed_store.store.durable


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_search_for_texts_has_the_answer_of_a_walk_through_all_records(seed: int, is_cut: bool) -> None:
    with simulated.World(seed=seed) as world:
        timed_store = TimedStore(world, limits=transaction.Limits(records=10))
        chance = random.Random(seed)
        start = timed_store.machine.clock.now()
        _random_changes(chance, timed_store)
        if is_cut:
            timed_store.drop_first_section()
        past = history.History(timed_store.machine, build.WHERE, lambda: timed_store.store.durable)
        answers = 0
        mac = build.vm(3, ip=ADDRESS).nics[0].mac
        texts_of_subjects = (
            *("10.0.0.7", "10.0.0.8", "10.0.0.99", "inst1", "first", "i2"),
            *("10.0.0.8/30", "10.0.0.7/32", "10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "10.0.1.0/24", "2001:db8::/64"),
        )
        for subject in (*map(addresses.parse, texts_of_subjects), addresses.Subject(text=mac, mac=mac)):
            for moment in (None, start + chance.random() * 3600):
                plain, searched = (
                    build.on(
                        world,
                        timed_store.machine,
                        past.everywhere(
                            addresses.matches(subject),
                            shows=lambda net: True,
                            needles=needles,
                            moment=moment,
                            limit=100,
                        ),
                    )
                    for needles in ((), addresses.needles(subject))
                )
                assert searched == plain, (subject, moment)
                answers += bool(searched.holdings)
        assert answers


def test_a_question_about_an_address_decodes_the_records_of_its_owners_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        timed_store.commit(*put(build.vm(1, ip=ADDRESS)))
        for number in range(2, 42):
            timed_store.commit(*put(build.vm(number)))
        timed_store.commit(*put(build.vm(1, ip="10.0.0.9")))
        decoded: list[int] = []
        decode = record.decode

        def counted(raw: bytes, **options: Any) -> record.Record:
            journal_record = decode(raw, **options)
            decoded.append(journal_record.serial)
            return journal_record

        monkeypatch.setattr(record, "decode", counted)
        assert holdings(timed_store.ask(address=ADDRESS)) == [(ADDRESS, "inst1", 1, 42)]
        assert len(set(decoded)) == 3
        decoded.clear()
        assert len(timed_store.ask().holdings) == 2
        assert len(decoded) > 40


def test_of_too_many_owners_all_records_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OWNERS", 1)
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        for number in (1, 2, 3):
            timed_store.commit(*put(build.vm(number, ip=ADDRESS)))
            timed_store.commit(gone(number))
        assert history.about(timed_store.machine.disk, build.WHERE.journal, [ADDRESS.encode()]) is None
        assert len(timed_store.ask(address=ADDRESS).holdings) == 3


def test_a_section_under_the_name_of_another_serial_is_damaged() -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)
        first, following = (build.sections(timed_store.machine)[0], journal_names.path(build.WHERE.journal, 2))
        build.on(world, timed_store.machine, timed_store.machine.disk.rename({first: following}))
        with pytest.raises(
            errors.ConfigurationError, match=f"{following}, byte offset 0: it does not begin with record 2"
        ):
            serials(timed_store)
        check = history.check(timed_store.machine.disk, build.WHERE.journal, most=1 << 30)
        assert (check.first, check.oldest) == (2, 2)
        assert "it does not begin with record 2" in check.problem


def test_a_check_reads_the_newest_sections_alone() -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)
        disk, folder = timed_store.machine.disk, build.WHERE.journal
        *_, older, newest = build.sections(timed_store.machine)
        build.on(world, timed_store.machine, disk.write(older, b"no frame\n"))
        end = disk.status(newest).size
        assert history.check(disk, folder, most=end).problem == ""
        assert f"{older}, byte offset 0" in history.check(disk, folder, most=end + 1).problem


def test_a_record_of_another_version_is_damage_with_its_offset() -> None:
    with simulated.World(seed=1) as world:
        timed_store = filled(world)
        disk, end = timed_store.machine.disk, timed_store.store.position
        path = build.sections(timed_store.machine)[-1]
        offset = disk.status(path).size
        unknown = record.Record(
            serial=end.serial + 1, time=1.0, epoch=1, cause=build.CAUSE, changes=(snapshot.Delete("wires", "w"),)
        )

        async def work() -> None:
            file = await disk.append_file(path)
            await file.append(frame.pack(end.digest, [record.encode(unknown)]))
            file.close()

        build.on(world, timed_store.machine, work())
        with pytest.raises(errors.ConfigurationError, match=f"{path}, byte offset {offset}: not a record that this"):
            serials(timed_store)
        assert history.start(disk, build.WHERE.journal).serial == 1


def test_a_journal_without_records_has_no_start() -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk
        assert history.start(disk, build.WHERE.journal) == history.Start(serial=0, time=None)
        assert history.check(disk, build.WHERE.journal, most=1) == history.Check(0, 0, "")


def test_an_address_outside_of_all_networks_is_reported_without_a_network_name() -> None:
    with simulated.World(seed=1) as world:
        timed_store = TimedStore(world)
        loose = instance.Nic(uuid="x9", mac="aa:00:00:00:00:99", ip=(ADDRESS,))
        timed_store.commit(*put(build.vm(1, ip=ADDRESS), structs.replace(build.vm(2), nics=(loose,))))
        past = history.History(timed_store.machine, build.WHERE, lambda: timed_store.store.durable)
        answer = build.on(
            world,
            timed_store.machine,
            past.everywhere(addresses.matches(addresses.parse(ADDRESS)), shows=lambda net: True, limit=10),
        )
        assert [(each.network, each.instance) for each in answer.holdings] == [("net", "inst1"), ("", "inst2")]
        assert answer.names == {"net": "net1"}
