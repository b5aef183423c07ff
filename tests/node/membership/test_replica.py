"""A candidate's copy, fed by the master's own store on simulated machines, and opened by it."""

import asyncio
import contextlib
import hashlib
import itertools
from collections.abc import Iterator

import msgspec
import pytest
from tests.node.membership.pairs import Pair, append
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.node.membership import replica_contents
from gantry.rpc import calls
from gantry.runtime import file_interface, simulated
from gantry.state.start import recovery
from gantry.state.store import transaction

WHERE = build.WHERE


@pytest.fixture
def pair() -> Iterator[Pair]:
    with simulated.World(seed=1) as world:
        yield Pair(world)


def test_a_candidates_copy_opens_as_the_masters_state(pair: Pair) -> None:
    pair.replicated(5)
    state = pair.at_node(pair.copy.status())
    assert (state.serial, state.job) == (6, 5)
    there = pair.reopened()
    store = pair.at_master(transaction.Store.open(pair.master, WHERE))
    assert there == build.content(store.snapshot)


def test_a_copy_is_found_again_after_a_restart(pair: Pair) -> None:
    pair.replicated(3)
    before = pair.at_node(pair.copy.status())
    assert pair.at_node(pair.fresh().status()) == before


def test_nothing_that_was_acknowledged_is_lost_with_the_power(pair: Pair) -> None:
    pair.replicated(3)
    before = pair.at_node(pair.copy.status())
    pair.world.crash("node1")
    assert pair.at_node(pair.fresh().status()) == before
    pair.reopened()


def test_a_machine_without_a_copy_says_so(pair: Pair) -> None:
    state = pair.at_node(pair.copy.status())
    assert state == calls.CandidateState(serial=0, digest="", epoch=0, job=0, master="")


def stored(config: str, jobs: dict[str, str] | None = None, *, epoch: int = 0) -> calls.CheckpointStore:
    digest = hashlib.sha256(config.encode()).hexdigest()
    return calls.CheckpointStore(epoch=epoch, digest=digest, config=config, jobs=jobs or {})


def in_parts(whole: calls.CheckpointStore, count: int) -> list[calls.CheckpointStore]:
    size = len(whole.config) // count + 1
    return [
        msgspec.structs.replace(
            whole,
            part=number,
            last=number == count - 1,
            config=whole.config[number * size : (number + 1) * size],
            jobs={f"job-{number + 1}": "{}"},
        )
        for number in range(count)
    ]


def test_a_frame_that_does_not_follow_is_not_written(pair: Pair) -> None:
    pair.replicated(2)
    before = pair.at_node(pair.copy.status())
    size = pair.node.disk.status(pair.section()).size
    assert pair.at_node(pair.copy.append(append("f" * 64, serial=4))) == before
    assert pair.node.disk.status(pair.section()).size == size


def test_a_frame_that_came_twice_is_written_once(pair: Pair) -> None:
    pair.replicated(2)
    end = pair.at_node(pair.copy.status())
    first = pair.at_node(pair.copy.append(append(end.digest, serial=4)))
    again = pair.at_node(pair.copy.append(append(end.digest, serial=4)))
    assert first == again
    assert first.serial == 4


def test_a_frame_is_not_taken_by_a_machine_without_a_copy(pair: Pair) -> None:
    assert pair.at_node(pair.copy.append(append(""))).serial == 0
    assert not pair.node.disk.exists(WHERE.journal)


@pytest.mark.parametrize("spoiled", [b"nonsense\n", b"00000000 2 {}\n"])
def test_what_is_no_frame_is_refused(pair: Pair, spoiled: bytes) -> None:
    pair.replicated(1)
    end = pair.at_node(pair.copy.status())
    with pytest.raises(errors.ProtocolError, match="the frame is incomplete or damaged"):
        pair.at_node(pair.copy.append(append(end.digest, line=spoiled)))


def test_a_master_of_an_earlier_epoch_is_refused(pair: Pair) -> None:
    pair.replicated(1)
    end = pair.at_node(pair.copy.status())
    pair.at_node(pair.copy.append(append(end.digest, epoch=5, serial=3)))
    with pytest.raises(errors.FencedError, match="epoch 4 has passed"):
        pair.at_node(pair.copy.append(append(end.digest, epoch=4, serial=4)))
    config = pair.node.disk.read(WHERE.config).decode()
    with pytest.raises(errors.FencedError, match="epoch 4 has passed"):
        pair.at_node(pair.copy.store(stored(config, epoch=4)))
    assert pair.at_node(pair.copy.status()).serial == 3


def test_records_and_leases_of_an_epoch_are_taken_from_one_node(pair: Pair) -> None:
    pair.replicated(1)
    end = pair.at_node(pair.copy.append(append(pair.at_node(pair.copy.status()).digest, epoch=5, serial=3), "u1"))
    pair.at_node(pair.copy.renew_lease(calls.LeaseRenew(node="node0", epoch=5, masters=("u1=key",)), "u1"))
    lease, names = pair.copy.lease_status(), pair.node.disk.names(WHERE.lib)
    config = pair.node.disk.read(WHERE.config).decode()
    for attack in (
        pair.copy.append(append(end.digest, epoch=5, serial=4), "u2"),
        pair.copy.store(stored(config, epoch=5), "u2"),
        pair.copy.renew_lease(calls.LeaseRenew(node="node9", epoch=5, masters=("u2=key",)), "u2"),
    ):
        with pytest.raises(errors.FencedError, match="epoch 5 belongs to the node with UUID u1"):
            pair.at_node(attack)
    assert pair.at_node(pair.copy.status()) == end
    assert pair.copy.lease_status().node == lease.node == "node0"
    assert pair.node.disk.read(f"{WHERE.ssconf}/ssconf_master_candidates_certs") == b"u1=key\n"
    assert pair.node.disk.names(WHERE.lib) == names
    assert pair.at_node(pair.copy.append(append(end.digest, epoch=5, serial=4), "u1")).serial == 4


def test_files_of_a_running_master_daemon_are_not_touched(pair: Pair) -> None:
    pair.replicated(2)
    store = pair.at_node(transaction.Store.open(pair.node, WHERE))
    with pytest.raises(errors.WrongStateError, match="a master daemon runs on node1"):
        pair.at_node(pair.copy.append(append("", serial=9)))
    config = pair.node.disk.read(WHERE.config).decode()
    with pytest.raises(errors.WrongStateError, match="a master daemon"):
        pair.at_node(pair.copy.store(stored(config, epoch=9)))
    pair.at_node(pair.copy.forget())
    pair.at_node(store.commit(build.put(build.vm(99)), build.CAUSE))
    pair.at_node(store.close())
    assert pair.at_node(pair.copy.status()).serial == 4  # and what that daemon wrote is seen


def test_a_torn_end_does_not_count_and_is_cut_off_by_the_next_frame(pair: Pair) -> None:
    pair.replicated(3)
    end = pair.at_node(pair.copy.status())
    whole = pair.node.disk.read(pair.section())
    pair.at_node(pair.node.disk.write(pair.section(), whole + b'0badc0de 100 {"previ'))
    fresh = pair.fresh()
    assert pair.at_node(fresh.status()) == end
    assert pair.at_node(fresh.append(append(end.digest, serial=5))).serial == 5
    assert pair.node.disk.read(pair.section()).startswith(whole + b"")
    pair.world.kill("node1")
    assert pair.at_node(pair.fresh().status()).serial == 5


def test_a_damaged_copy_ends_before_the_damage_and_nothing_is_removed_by_looking(pair: Pair) -> None:
    pair.replicated(4)
    whole = pair.node.disk.read(pair.section())
    second = whole.index(b"\n") + 20
    damaged = whole[:second] + bytes([whole[second] ^ 1]) + whole[second + 1 :]
    pair.at_node(pair.node.disk.write(pair.section(), damaged))
    assert pair.at_node(pair.fresh().status()).serial < 5
    assert pair.node.disk.read(pair.section()) == damaged


def test_a_checkpoint_is_there_as_a_whole_or_not_at_all(pair: Pair) -> None:
    pair.replicated(3)
    config = pair.node.disk.read(WHERE.config).decode()
    whole_copy = stored(config, {"job-7": "{}", "serial": "7\n", "version": "1\n"})
    for steps in range(40):
        pair.at_node(pair.fresh().store(whole_copy))

        async def interrupted(ticks: int = steps) -> None:
            pair.node.spawn(pair.fresh().store(whole_copy))
            await pair.node.clock.sleep(ticks * 0.0005)

        pair.world.run(interrupted())
        pair.world.crash("node1")
        assert pair.at_node(pair.fresh().status()).serial == 1
        assert pair.node.disk.read(f"{WHERE.queue}/job-7") == b"{}"
        assert not pair.node.disk.exists(WHERE.journal) or not build.sections(pair.node)
        assert not pair.node.disk.exists(WHERE.incoming)


def test_a_copy_that_comes_in_parts_counts_when_the_last_is_there(pair: Pair) -> None:
    pair.replicated(3)
    whole = stored(pair.node.disk.read(WHERE.config).decode())
    *parts, last = in_parts(whole, 4)
    for part in parts:
        assert pair.at_node(pair.copy.store(part)).serial == 4
        assert pair.at_node(pair.copy.status()).serial == 4
    assert pair.at_node(pair.copy.store(last)).serial == 1
    pair.world.crash("node1")
    assert pair.at_node(pair.fresh().status()).serial == 1
    assert pair.node.disk.read(WHERE.config).decode() == whole.config
    assert {f"job-{number}" for number in range(1, 5)} <= set(pair.node.disk.names(WHERE.queue))


def test_a_copy_does_not_count_of_which_somebody_elses_sync_could_not_save_a_part(pair: Pair) -> None:
    pair.replicated(3)
    whole = stored(pair.node.disk.read(WHERE.config).decode())
    first, last = in_parts(whole, 2)
    pair.at_node(pair.copy.store(first))
    pair.node.disk.fail_sync = True
    with pytest.raises(OSError):
        pair.at_node(pair.node.disk.sync("/"))
    pair.node.disk.fail_sync = False
    with pytest.raises(errors.StorageError, match="cannot be written"):
        pair.at_node(pair.copy.store(last))
    assert pair.at_node(pair.copy.status()).serial == 4
    for part in (first, last):
        pair.at_node(pair.copy.store(part))
    pair.world.crash("node1")
    assert pair.at_node(pair.fresh().status()).serial == 1
    assert pair.node.disk.read(f"{WHERE.queue}/job-1") == b"{}"


@pytest.mark.parametrize("wrong", ["skipped", "repeated", "restarted", "another", "older"])
def test_a_part_that_does_not_follow_is_refused_and_the_whole_can_begin_again(pair: Pair, wrong: str) -> None:
    pair.replicated(1)
    config = pair.node.disk.read(WHERE.config).decode()
    parts = in_parts(stored(config, epoch=3), 3)
    for part in parts[:2]:
        pair.at_node(pair.copy.store(part))
    bad = {
        "skipped": msgspec.structs.replace(parts[2], part=3),
        "repeated": parts[1],
        "restarted": parts[2],
        "another": msgspec.structs.replace(parts[2], digest="0" * 64),
        "older": msgspec.structs.replace(parts[0], epoch=2),
    }
    kind = errors.WrongStateError if wrong == "older" else errors.ProtocolError
    with pytest.raises(kind, match="epoch 2 has passed" if wrong == "older" else "is not the expected next part"):
        pair.at_node((pair.fresh() if wrong == "restarted" else pair.copy).store(bad[wrong]))
    assert pair.at_node(pair.copy.status()).serial == 2
    for part in parts:
        state = pair.at_node(pair.copy.store(part))
    assert state.serial == 1


def test_a_configuration_that_did_not_come_as_it_was_sent_is_none(pair: Pair) -> None:
    pair.replicated(1)
    config = pair.node.disk.read(WHERE.config).decode()
    spoiled = msgspec.structs.replace(stored(config), config=config.replace("node1", "node9"))
    with pytest.raises(errors.ProtocolError, match="its checksum does not match"):
        pair.at_node(pair.copy.store(spoiled))
    assert pair.at_node(pair.copy.status()).serial == 2


@pytest.mark.parametrize("name", ["../config.data", "lock", "archive/../job-1", "job-x", "job-0"])
def test_a_checkpoint_writes_files_of_the_queue_and_no_others(pair: Pair, name: str) -> None:
    pair.replicated(1)
    config = pair.node.disk.read(WHERE.config).decode()
    with pytest.raises(errors.ProtocolError, match="is not a file of the queue"):
        pair.at_node(pair.copy.store(stored(config, {name: ""})))
    assert pair.at_node(pair.copy.status()).serial == 2


def test_a_full_disk_fails_the_append_and_leaves_the_copy_whole(pair: Pair) -> None:
    pair.replicated(2)
    end = pair.at_node(pair.copy.status())
    pair.node.disk.capacity = 1 << 30
    pair.node.disk.capacity -= pair.node.disk.free_space("/")[0] - 10  # room for ten bytes of the frame
    with pytest.raises(errors.StorageError, match="cannot be written"):
        pair.at_node(pair.copy.append(append(end.digest, serial=4)))
    pair.node.disk.capacity = None
    assert pair.at_node(pair.copy.status()) == end
    assert pair.at_node(pair.copy.append(append(end.digest, serial=4))).serial == 4


def test_frames_are_on_the_disk_in_a_section_that_a_master_daemon_began_and_could_not_sync(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.replicated(2)
    end = pair.at_node(pair.copy.status())
    disk, path = pair.node.disk, f"{WHERE.journal}/{4:016d}.log"

    async def begin_section() -> None:
        file = await disk.append_file(path)
        with monkeypatch.context() as patch:
            # The write succeeds and its sync fails, then the same with the truncation.
            outcomes = itertools.cycle([False, True])
            patch.setattr(disk, "fails", lambda chance: next(outcomes))
            for work in (file.append(b"never acknowledged\n"), file.truncate(0)):
                with pytest.raises(OSError, match="Input/output error"):
                    await work
        file.close()

    pair.at_node(begin_section())
    new = msgspec.structs.replace(append(end.digest, serial=4), begins_section=True)
    with contextlib.suppress(errors.StorageError):
        pair.at_node(pair.copy.append(new))
    assert pair.at_node(pair.copy.append(new)).serial == 4
    assert pair.section() == path
    assert disk.stable(path) == disk.read(path) != b""


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_whose_sync_failed_is_on_the_disk_before_it_is_reported(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        pair = Pair(world)
        pair.replicated(2)
        end = pair.at_node(pair.copy.status())
        pair.node.disk.fail_sync = True
        with pytest.raises(errors.StorageError, match="cannot be written"):
            pair.at_node(pair.copy.append(append(end.digest, serial=4)))
        with pytest.raises(errors.StorageError, match="cannot be synced to its disk"):
            pair.at_node(pair.copy.status())
        pair.node.disk.fail_sync = False
        # the kernel tells a sync of all which syncs of files have failed since the one before it
        with pytest.raises(errors.StorageError, match="cannot be synced to its disk"):
            pair.at_node(pair.copy.status())
        reported_state = pair.at_node(pair.copy.status())
        world.crash("node1")
        assert pair.at_node(pair.fresh().status()) == reported_state


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_that_a_killed_daemon_did_not_sync_is_on_the_disk_before_it_is_reported(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        pair = Pair(world)
        pair.replicated(2)
        end = pair.at_node(pair.copy.status())
        # in the middle of the sync: a visit to the disk opens the file, the next is to sync it
        pair.node.disk.delay = (0.01, 0.01)

        async def interrupted() -> None:
            pair.node.spawn(pair.copy.append(append(end.digest, serial=4)))
            await asyncio.sleep(0.015)

        world.run(interrupted())
        world.kill("node1")
        reported_state = pair.at_node(pair.fresh().status())
        assert reported_state.serial == 4
        world.crash("node1")
        assert pair.at_node(pair.fresh().status()) == reported_state


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_is_on_the_disk_after_a_master_daemon_rewrote_the_copy_and_could_not_sync(seed: int) -> None:
    with simulated.World(seed=seed) as world:
        pair = Pair(world)
        pair.replicated(2)
        end = pair.at_node(pair.copy.status())
        # As a master daemon that takes the role over does first, with the same content; its sync failed.
        pair.at_node(pair.node.disk.write(pair.section(), pair.node.disk.read(pair.section()), sync=False))
        reported_state = pair.at_node(pair.copy.append(append(end.digest, serial=4)))
        world.crash("node1")
        assert pair.at_node(pair.fresh().status()) == reported_state


def test_a_frame_that_a_master_daemon_wrote_behind_a_stored_checkpoint_is_reported(pair: Pair) -> None:
    config = pair.master.disk.read(WHERE.config).decode()
    end = pair.at_node(pair.copy.store(stored(config)))
    assert pair.at_node(pair.copy.status()) == end
    written = append(end.digest, serial=end.serial + 1)

    async def master() -> None:
        await pair.node.disk.make_directory(WHERE.journal)
        path = f"{WHERE.journal}/{end.serial + 1:016d}.log"
        file = await pair.node.disk.append_file(path)
        await file.append(written.frame.encode())
        file.close()

    pair.at_node(master())
    assert pair.at_node(pair.copy.status()).serial == end.serial + 1


def test_a_frame_goes_to_the_section_that_a_master_daemon_replaced_within_a_tick_of_the_clock(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.replicated(2)
    end, path, disk = pair.at_node(pair.copy.status()), pair.section(), pair.node.disk
    pair.at_node(disk.write(path, disk.read(path)))
    with monkeypatch.context() as patch:
        patch.setattr(replica_contents.Reader, "is_unchanged", lambda *_: True)
        new = append(end.digest, serial=end.serial + 1)
        assert pair.at_node(pair.copy.append(new)).serial == end.serial + 1
    assert disk.read(path).endswith(new.frame.encode())


def test_a_section_stays_open_from_frame_to_frame(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.replicated(2)
    opened, append_file = list[str](), pair.node.disk.append_file

    async def count(path: str, *, mode: int = 0o640) -> file_interface.AppendFile:
        opened.append(path)
        return await append_file(path, mode=mode)

    monkeypatch.setattr(pair.node.disk, "append_file", count)
    for _ in range(3):
        end = pair.at_node(pair.copy.status())
        pair.at_node(pair.copy.append(append(end.digest, serial=end.serial + 1)))
    assert opened.count(pair.section()) <= 1


def test_leaving_removes_the_copy(pair: Pair) -> None:
    pair.replicated(2)
    pair.at_node(pair.copy.forget())
    for path in (WHERE.config, WHERE.journal, WHERE.queue):
        assert not pair.node.disk.exists(path)


def test_the_frames_behind_any_that_the_copy_has_are_handed_out(pair: Pair) -> None:
    pair.replicated(5)
    section = pair.node.disk.read(f"{WHERE.journal}/{pair.node.disk.names(WHERE.journal)[-1]}")
    lines = section.splitlines(keepends=True)
    for index, line in enumerate(lines):
        fetched = pair.at_node(pair.copy.following(calls.JournalFetch(after=frame.digest(line), serial=index + 2)))
        assert [line_text.encode() for line_text in fetched] == lines[index + 1 :]
    assert pair.at_node(pair.copy.following(calls.JournalFetch(after="f" * 64))) == ()


def test_a_master_whose_disk_lacks_the_last_frames_takes_them_in_from_a_candidate(pair: Pair) -> None:
    pair.replicated(3)
    section = f"{WHERE.journal}/{pair.master.disk.names(WHERE.journal)[-1]}"
    lines = pair.master.disk.read(section).splitlines(keepends=True)
    pair.at_master(pair.master.disk.write(section, b"".join(lines[:-2])))

    async def catch_up() -> dict[str, object]:
        store = await transaction.Store.open(pair.master, WHERE, behind=recovery.Behind.COMPLETED)
        before = store.durable_serial
        with pytest.raises(errors.ConfigurationError, match="journal-end says serial"):
            store.submit((), build.CAUSE)
        frames = await pair.copy.following(calls.JournalFetch(after=store.position.digest))
        with pytest.raises(errors.ConfigurationError, match="does not follow"):
            await store.adopt(frames[-1].encode())
        with pytest.raises(errors.ConfigurationError, match="a frame of a master candidate"):
            await store.adopt(frames[0].encode()[:-9])
        for line in frames:
            await store.adopt(line.encode())
        assert len(frames) == 2
        assert store.durable_serial == before + 2
        store.check_evidence()
        content = build.content(store.snapshot)
        await store.close()
        return content

    assert pair.at_master(catch_up()) == pair.reopened()


def test_an_empty_section_that_a_master_daemon_left_behind_takes_no_frames(pair: Pair) -> None:
    """A section's name says with which record it begins: a later one in it would be damage to who opens the copy."""
    pair.replicated(3)
    serial = int(pair.section().rpartition("/")[2][:16])
    pair.at_node(pair.node.disk.write(f"{WHERE.journal}/{serial + 1:016d}.log", b""))
    pair.copy = pair.fresh()
    pair.replicated(3)
    assert pair.reopened() == build.content(pair.at_master(pair.open()).snapshot)
