"""The past in the journal: records in both directions, and the owners of each address."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.state import build

from gantry import errors
from gantry.lib_files import journal_names
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
        site = TimedStore(world, limits=transaction.Limits(records=2))
        before = site.commit(*put(build.vm(1, ip=ADDRESS)))
        for number in (2, 3, 4):
            site.commit(*put(build.vm(number)))
        site.drop_first_section()
        site.drop_first_section()
        past = site.ask(at=before)
        assert past.since is not None
        assert before < past.since
        assert (past.holdings, past.net) == ((), None)
        # No record changes the network, so that it has been as it is since before the first one.
        later = site.ask(at=past.since)
        assert later.net == build.NET
        assert holdings(later) == [(ADDRESS, "inst1", 0, 0)]


def test_a_network_that_changed_after_the_moment_is_not_guessed() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world, limits=transaction.Limits(records=2))
        for number in (1, 2, 3, 4):
            moment = site.commit(*put(build.vm(number)))
        site.drop_first_section()
        changed = site.commit(snapshot.Put(structs.replace(build.NET, serial_no=2, tags=("new",))))
        assert site.ask(at=moment).net is None
        assert site.ask(at=changed).net == structs.replace(build.NET, serial_no=2, tags=("new",))


def test_every_owner_of_an_address_is_reported_with_times_and_jobs() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        allocated_at = site.commit(*put(build.vm(1, ip=ADDRESS), build.vm(2, ip="10.0.0.8")))
        freed = site.commit(gone(1))
        again = site.commit(*put(build.vm(3, ip=ADDRESS)))
        past = site.ask(address=ADDRESS)
        assert holdings(past) == [(ADDRESS, "inst1", 1, 2), (ADDRESS, "inst3", 3, 0)]
        first, second = past.holdings
        assert first.start == pytest.approx(allocated_at, abs=1)
        assert first.end == pytest.approx(freed, abs=1)
        assert second.start == pytest.approx(again, abs=1)
        assert second.end is None
        assert (first.given.user, first.given.reason, first.freed.reason) == ("gnt:user", "reason 1", "reason 2")


def test_a_change_that_keeps_the_address_is_no_event_and_one_that_moves_it_is() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        site.commit(*put(build.vm(1, ip=ADDRESS)))
        site.commit(*put(build.vm(1, ip=ADDRESS, tags=("blue",))))
        site.commit(*put(build.vm(1, ip="10.0.0.9")))
        assert holdings(site.ask()) == [(ADDRESS, "inst1", 1, 3), ("10.0.0.9", "inst1", 3, 0)]


def test_a_port_has_an_address_as_an_instance_has() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        port = network.Port(uuid="p", name="", network="net", mac="aa:00:00:00:00:aa", ip=(ADDRESS,))
        site.commit(snapshot.Put(port))
        site.commit(*put(build.vm(1, ip=ADDRESS)), snapshot.Delete("ports", "p"))
        site.commit(gone(1), snapshot.Put(structs.replace(port, name="vip")))
        past = site.ask()
        assert holdings(past) == [(ADDRESS, "p", 1, 2), (ADDRESS, "inst1", 2, 3), (ADDRESS, "vip", 3, 0)]
        assert [holding.noun for holding in past.holdings] == ["port", "instance", "port"]


def test_an_address_may_pass_from_one_instance_to_another_in_one_record() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        site.commit(*put(build.vm(1, ip=ADDRESS)))
        site.commit(*put(build.vm(2, ip=ADDRESS)), gone(1))
        assert holdings(site.ask()) == [(ADDRESS, "inst1", 1, 2), (ADDRESS, "inst2", 2, 0)]


def test_at_a_moment_there_is_one_holder_or_none() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        before = site.commit()
        first = site.commit(*put(build.vm(1, ip=ADDRESS)))
        second = site.commit(gone(1), *put(build.vm(2, ip=ADDRESS)))
        assert [holdings(site.ask(at=at)) for at in (before, first + 1, second + 1)] == [
            [],
            [(ADDRESS, "inst1", 2, 3)],
            [(ADDRESS, "inst2", 3, 0)],
        ]


def test_the_limit_keeps_the_holdings_that_ended_last() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        for number in range(1, 6):
            site.commit(*put(build.vm(number, ip=ADDRESS)))
            site.commit(gone(number))
        site.commit(*put(build.vm(6, ip=ADDRESS)))
        assert [name for _, name, _, _ in holdings(site.ask(limit=3))] == ["inst4", "inst5", "inst6"]


def test_an_address_may_be_asked_for_in_any_spelling() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        six = network.Network(uuid="six", name="six", subnets=(network.Subnet(uuid="t", cidr="2001:db8::/64"),))
        nic = instance.Nic(uuid="x", mac="aa:00:00:00:00:99", network="six", ip=("2001:db8::7",))
        site.commit(snapshot.Put(six))
        site.commit(*put(instance.Instance(uuid="i", name="i", primary_node="n0", hypervisor="kvm", nics=(nic,))))
        assert len(site.ask("six", address="2001:DB8:0:0::7").holdings) == 1
        with pytest.raises(errors.InvalidError, match="not an IP address"):
            site.ask(address="10.0.0.256")


def test_a_network_that_is_gone_is_found_by_the_name_it_had() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        old = network.Network(uuid="old", name="lan", subnets=(network.Subnet(uuid="t", cidr="10.0.0.0/8"),))
        nic = instance.Nic(uuid="x", mac="aa:00:00:00:00:99", network="old", ip=(ADDRESS,))
        site.commit(snapshot.Put(old))
        vm = instance.Instance(uuid="i", name="inst", primary_node="n0", hypervisor="kvm", nics=(nic,))
        there = site.commit(*put(vm))
        site.commit(snapshot.Delete("instances", "i"), snapshot.Delete("networks", "old"))
        new = site.commit(snapshot.Put(network.Network(uuid="new", name="lan")))
        assert holdings(site.ask("lan")) == holdings(site.ask("old")) == [(ADDRESS, "inst", 2, 3)]
        then, later = site.ask("lan", at=there + 1).net, site.ask("lan", at=new + 1).net
        assert (then and then.uuid, later and later.uuid) == ("old", "new")
        with pytest.raises(errors.NotFoundError, match="no such network: wan"):
            site.ask("wan")


def test_what_began_before_the_kept_records_has_no_beginning() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world, limits=transaction.Limits(records=2))
        site.commit(*put(build.vm(1, ip=ADDRESS), build.vm(2, ip="10.0.0.8")))
        site.commit()
        known = site.commit(*put(build.vm(3, ip="10.0.0.9")))
        site.commit()
        while build.sections(site.machine)[0] != journal_names.path(build.WHERE.journal, 4):
            site.drop_first_section()
        site.commit(*put(structs.replace(build.vm(2, ip="10.0.0.10"), serial_no=2)))
        past = site.ask()
        assert past.since == pytest.approx(known, abs=1)
        assert [(holding.address, holding.instance, holding.start is None) for holding in past.holdings] == [
            (ADDRESS, "inst1", True),
            ("10.0.0.10", "inst2", True),
            ("10.0.0.9", "inst3", False),
        ]


def filled(world: simulated.World) -> TimedStore:
    site = TimedStore(world, limits=transaction.Limits(records=3))
    for number in range(1, 12):
        site.commit(*put(build.vm(number)))
    assert len(build.sections(site.machine)) > 3
    return site


def serials(site: TimedStore, *, after: int = 0, newest_first: bool = False) -> list[int]:
    records = history.records(site.machine.disk, build.WHERE.journal, after=after, newest_first=newest_first)
    return [entry.serial for entry in records]


def test_records_are_read_both_ways_from_any_serial() -> None:
    with simulated.World(seed=1) as world:
        site = filled(world)
        assert serials(site) == list(range(1, 13))
        assert serials(site, newest_first=True) == list(range(12, 0, -1))
        for after in range(14):
            assert serials(site, after=after) == list(range(after + 1, 13))
            assert serials(site, after=after, newest_first=True) == list(range(12, after, -1))


def test_changes_of_other_kinds_are_left_out() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        site.commit(*put(build.vm(1)), snapshot.Put(build.queued(1)))
        records = list(history.records(site.machine.disk, build.WHERE.journal, kinds={"jobs"}))
        assert [len(entry.changes) for entry in records] == [0, 1]
        assert records[-1].changes == (snapshot.Put(build.queued(1)),)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_changed_byte_or_a_missing_section_is_reported_with_the_file(newest_first: bool) -> None:
    with simulated.World(seed=1) as world:
        site = filled(world)
        middle = build.sections(site.machine)[1]
        site.machine.disk.flip(middle, site.machine.disk.status(middle).size // 2)
        with pytest.raises(errors.ConfigurationError, match=f"{middle}, byte offset"):
            serials(site, newest_first=newest_first)
        build.on(world, site.machine, site.machine.disk.remove(middle))
        with pytest.raises(errors.ConfigurationError, match="chain hash"):
            serials(site, newest_first=newest_first)


def test_a_frame_that_is_just_being_written_is_not_read_and_no_fault() -> None:
    with simulated.World(seed=1) as world:
        site = filled(world)

        async def work() -> None:
            file = await site.machine.disk.append_file(build.sections(site.machine)[-1])
            await file.append(b"0123abcd 99 {half")
            file.close()

        build.on(world, site.machine, work())
        assert serials(site) == list(range(1, 13))


def test_records_that_are_not_durable_yet_are_not_reported() -> None:
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        site.commit(*put(build.vm(1, ip=ADDRESS)))
        earlier = site.store.durable
        site.commit(gone(1))
        durable_records: Sequence[record.Record] = list(history.records(site.machine.disk, build.WHERE.journal))
        question = owners.Question(name="net1", networks=frozenset({"net"}), limit=10)
        assert holdings(owners.holdings(durable_records, question, now=earlier)) == [(ADDRESS, "inst1", 1, 0)]


def _random_changes(chance: random.Random, site: TimedStore) -> None:
    """Commit changes of a network and of a few owners: creations, other addresses, other names, removals."""
    state = site.store.durable
    for _ in range(60):
        if chance.random() < 0.1:
            net = site.store.durable.networks["net"]
            site.commit(snapshot.Put(structs.replace(net, serial_no=net.serial_no + 1, description=str(site.job))))
        number, last = chance.randrange(1, 6), chance.randrange(7, 11)
        known = site.store.durable.instances.get(f"i{number}")
        free = ("net", f"10.0.0.{last}") not in site.store.durable.addresses
        if known and chance.random() < 0.3:
            site.commit(gone(number))
        elif known and chance.random() < 0.4:
            name = chance.choice(["first", "second", known.name])
            if ("instances", name) not in site.store.durable.names:
                site.commit(snapshot.Put(structs.replace(known, name=name, serial_no=known.serial_no + 1)))
        elif free:
            vm = build.vm(number, ip=f"10.0.0.{last}")
            if known:
                vm = structs.replace(known, nics=vm.nics, serial_no=known.serial_no + 1)
            site.commit(snapshot.Put(vm))
    assert state is not site.store.durable


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_search_for_texts_has_the_answer_of_a_walk_through_all_records(seed: int, is_cut: bool) -> None:
    with simulated.World(seed=seed) as world:
        site = TimedStore(world, limits=transaction.Limits(records=10))
        chance = random.Random(seed)
        start = site.machine.clock.now()
        _random_changes(chance, site)
        if is_cut:
            site.drop_first_section()
        past = history.History(site.machine, build.WHERE, lambda: site.store.durable)
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
                        site.machine,
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
        site = TimedStore(world)
        site.commit(*put(build.vm(1, ip=ADDRESS)))
        for number in range(2, 42):
            site.commit(*put(build.vm(number)))
        site.commit(*put(build.vm(1, ip="10.0.0.9")))
        decoded: list[int] = []
        decode = record.decode

        def counted(raw: bytes, **options: Any) -> record.Record:
            journal_record = decode(raw, **options)
            decoded.append(journal_record.serial)
            return journal_record

        monkeypatch.setattr(record, "decode", counted)
        assert holdings(site.ask(address=ADDRESS)) == [(ADDRESS, "inst1", 1, 42)]
        assert len(set(decoded)) == 3
        decoded.clear()
        assert len(site.ask().holdings) == 2
        assert len(decoded) > 40


def test_of_too_many_owners_all_records_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OWNERS", 1)
    with simulated.World(seed=1) as world:
        site = TimedStore(world)
        for number in (1, 2, 3):
            site.commit(*put(build.vm(number, ip=ADDRESS)))
            site.commit(gone(number))
        assert history.about(site.machine.disk, build.WHERE.journal, [ADDRESS.encode()]) is None
        assert len(site.ask(address=ADDRESS).holdings) == 3
