"""The epoch of the master that a node obeys."""

import contextlib
import os
import zlib
from pathlib import Path

import pytest

from gantry import errors
from gantry.node.membership import fence, ssconf
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime


def new_fence(folders: paths.Paths) -> fence.Fence:
    runtime = RealRuntime("node7")
    return fence.Fence(runtime, folders, files=ssconf.Files(runtime.disk, folders))


def write(path: str, content: bytes | None) -> None:
    """Replace the content of a file that the node has made read-only; None makes a folder of it."""
    file = Path(path)
    file.unlink(missing_ok=True)
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)


def read(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_master_of_a_lower_epoch_is_refused_and_the_error_names_the_newer_master(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(0)
    await barrier.admit(4)
    await ssconf.Files(RealRuntime().disk, folders).write({"master_node": "node2"})
    await barrier.admit(4)
    with pytest.raises(
        errors.FencedError, match=r"epoch 3 has passed: node7 .*in epoch 4, and its ssconf files name node2 as"
    ):
        await barrier.admit(3)
    with pytest.raises(errors.FencedError, match="epoch 0 has passed"):
        await barrier.admit(0)


async def test_an_epoch_far_above_those_of_the_node_is_not_believed(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(5)
    with pytest.raises(errors.ProtocolError, match="epoch 1006 is too far above epoch 5, the highest that node7 knows"):
        await barrier.admit(5 + calls.EPOCH_STEP + 1)
    await barrier.admit(5)
    assert barrier.granted() == calls.GrantedEpoch()
    assert await barrier.grant(calls.GrantedEpoch(epoch=5 + calls.EPOCH_STEP, node="node3"))
    await barrier.admit(5 + 2 * calls.EPOCH_STEP)


async def test_an_epoch_far_above_is_granted_in_steps(folders: paths.Paths) -> None:
    """So a master can go above what somebody made a majority grant."""
    barrier = new_fence(folders)
    await barrier.admit(5)
    far = calls.GrantedEpoch(epoch=2 * calls.EPOCH_STEP, node="node3")
    assert not await barrier.grant(far)
    assert barrier.granted().epoch == 5 + calls.EPOCH_STEP
    assert await barrier.grant(far)
    assert barrier.granted() == far


@pytest.mark.parametrize(
    "content", [b"", b"9 00000000\n", b"x\n", b"7\xff\n", b"99999999999\n", b"7 95cf3d7d\n9 8a3f\n", b"7\n9\n"]
)
async def test_a_damaged_epoch_is_not_zero(
    folders: paths.Paths, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    barrier = new_fence(folders)
    await barrier.grant(calls.GrantedEpoch(epoch=7, node="node3"))
    await barrier.admit(7)
    path = f"{folders.lib}/epoch"
    write(path, content)
    again = new_fence(folders)
    assert again.epoch() == 7
    assert f"{path} is damaged" in caplog.text
    with pytest.raises(errors.FencedError):
        await again.admit(6)
    await again.admit(8)
    assert new_fence(folders).epoch() == 8


async def test_one_of_two_lines_is_enough(folders: paths.Paths) -> None:
    await new_fence(folders).admit(7)
    content = read(f"{folders.lib}/epoch")
    for index in range(len(content) - 1):
        if content[index : index + 1] != b"\n":
            write(f"{folders.lib}/epoch", content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
            assert new_fence(folders).epoch() == 7


async def test_a_node_that_knows_no_epoch_takes_the_first(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(9 * calls.EPOCH_STEP)
    with pytest.raises(errors.ProtocolError, match="too far above"):
        await barrier.admit(11 * calls.EPOCH_STEP)
    os.unlink(f"{folders.lib}/epoch")
    await new_fence(folders).admit(11 * calls.EPOCH_STEP)


async def test_a_node_that_cannot_read_what_it_gave_up_has_no_vote(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.give_up(3, 50)
    write(f"{folders.lib}/given-up", b"[3,")
    with pytest.raises(errors.StorageError, match=r"given-up on node7 is damaged: .*has no vote until"):
        barrier.given_up()


DAMAGED = [b"", bytes(range(256)), b"9" * 4002, b'{"epoch":%s,"node":"x"}' % (b"9" * 4002), None]


@pytest.mark.parametrize("name", ["epoch", "promise", "given-up"])
@pytest.mark.parametrize("content", DAMAGED, ids=["empty", "bytes", "digits", "object", "folder"])
async def test_a_file_that_no_node_wrote_frees_the_node_from_nothing(
    folders: paths.Paths, name: str, content: bytes | None
) -> None:
    """None is a folder in the place of the file. The other files count, or the node refuses and says why."""
    barrier = new_fence(folders)
    await barrier.grant(calls.GrantedEpoch(epoch=7, node="node3"))
    await barrier.admit(7)
    await barrier.give_up(7, 50)
    write(f"{folders.lib}/{name}", content)
    again = new_fence(folders)
    with pytest.raises((errors.GantryError, OSError)):
        await again.admit(6)
    with contextlib.suppress(errors.GantryError, OSError):
        assert not await again.grant(calls.GrantedEpoch(epoch=7, node="node4"))
    with contextlib.suppress(errors.GantryError, OSError):
        assert again.given_up() == (7, 50)


async def test_the_epoch_of_an_earlier_version_has_no_checksum(folders: paths.Paths) -> None:
    write(f"{folders.lib}/epoch", b"12\n")
    assert new_fence(folders).epoch() == 12


async def test_a_damaged_grant_binds_the_node_to_the_epoch_that_it_has_seen(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(7)
    write(f"{folders.lib}/promise", b"{\xff")
    assert new_fence(folders).granted().epoch == 7
    with pytest.raises(errors.NotGrantedError):
        barrier.check_grant(6)
    assert await barrier.grant(calls.GrantedEpoch(epoch=8, node="node3"))


async def test_the_epoch_survives_the_daemon_and_ends_with_the_membership(folders: paths.Paths) -> None:
    await new_fence(folders).admit(9)
    barrier = new_fence(folders)
    assert barrier.epoch() == 9
    await barrier.forget()
    assert (barrier.epoch(), new_fence(folders).epoch()) == (0, 0)
    assert "epoch" not in os.listdir(folders.lib)
    await barrier.forget()


async def test_an_epoch_that_cannot_be_stored_is_not_obeyed(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    os.rename(f"{folders.lib}", f"{folders.lib}-gone")
    with pytest.raises(OSError):
        await barrier.admit(5)
    os.rename(f"{folders.lib}-gone", f"{folders.lib}")
    assert barrier.epoch() == 0


async def test_an_epoch_is_granted_to_one_only_and_to_that_one_again(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    barrier.certify(4, "u1")
    await barrier.admit(4, "u1")
    assert not await barrier.grant(calls.GrantedEpoch(epoch=4, node="node2", uuid="u2"))
    assert await barrier.grant(calls.GrantedEpoch(epoch=4, node="node1", uuid="u1"))
    assert barrier.granted() == calls.GrantedEpoch()
    assert await barrier.grant(calls.GrantedEpoch(epoch=5, node="node1"))
    assert not await barrier.grant(calls.GrantedEpoch(epoch=5, node="node2"))
    assert not await barrier.grant(calls.GrantedEpoch(epoch=5, node="node1", uuid="u2"))
    assert await new_fence(folders).grant(calls.GrantedEpoch(epoch=5, node="node1"))
    assert await barrier.grant(calls.GrantedEpoch(epoch=7, node="node2"))
    assert barrier.granted() == calls.GrantedEpoch(epoch=7, node="node2")
    await barrier.forget()
    assert barrier.granted() == calls.GrantedEpoch()


async def test_an_epoch_belongs_to_the_first_node_that_uses_it_before_it_is_recorded_and_afterwards(
    folders: paths.Paths,
) -> None:
    world, barrier = on_simulated_clock(folders)
    await barrier.admit(4, "u1")
    world.seconds += calls.LEASE_SECONDS
    for _ in range(2):
        barrier.check_use(5, "u2", at_least=0)
    for epoch, known_owner in ((5, "u2"), (4, "u1")):
        with pytest.raises(errors.NotGrantedError, match=f"epoch {epoch} belongs to .* {known_owner}, not to .* u3"):
            barrier.check_use(epoch, "u3", at_least=0)
    with pytest.raises(errors.NotGrantedError):
        await barrier.admit(5, "u3")
    assert (barrier.epoch(), new_fence(folders).epoch()) == (4, 4)
    barrier.check_use(5, "u2", at_least=0)
    await barrier.admit(5, "u2")
    with pytest.raises(errors.NotGrantedError):
        new_fence(folders).check_owner(5, "u3")
    await barrier.forget()
    barrier.check_use(6, "u2", at_least=0)


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def on_simulated_clock(folders: paths.Paths) -> tuple[Clock, fence.Fence]:
    clock, runtime = Clock(), RealRuntime("node7")
    runtime.clock = clock  # type: ignore[assignment]
    return clock, fence.Fence(runtime, folders, files=ssconf.Files(runtime.disk, folders))


async def test_a_proven_epoch_is_obeyed_at_any_distance_and_at_once(folders: paths.Paths) -> None:
    _, barrier = on_simulated_clock(folders)
    await barrier.admit(1, "u1")
    far = 5 * calls.EPOCH_STEP
    barrier.certify(far, "u2")
    barrier.check_use(far, "u2", at_least=1)
    assert (barrier.epoch(), barrier.unproven_epoch()) == (1, 1)  # its first record may never be durable
    await barrier.admit(far, "u2")
    for known in (barrier, new_fence(folders)):
        assert (known.epoch(), known.unproven_epoch(), known.proven().owner) == (far, 0, "u2")
    with pytest.raises(errors.FencedError, match="epoch 1 has passed"):
        await barrier.admit(1, "u1")
    with pytest.raises(errors.NotGrantedError, match=f"epoch {far} belongs to the node with UUID u2"):
        await barrier.admit(far, "u3")


async def test_a_master_without_a_proof_is_obeyed_only_when_the_present_one_is_silent(folders: paths.Paths) -> None:
    clock, barrier = on_simulated_clock(folders)
    barrier.certify(4, "u1")
    await barrier.admit(4, "u1")
    clock.seconds += calls.LEASE_SECONDS - 1
    for attempt in (barrier.admit(5, "u2"), barrier.admit(4 + calls.EPOCH_STEP, "u2")):
        with pytest.raises(errors.UnprovenError, match=r"has not seen the proof of epoch .*, of epoch 4"):
            await attempt
    with pytest.raises(errors.UnprovenError):
        barrier.check_use(5, "u2", at_least=0)
    assert (barrier.loyal_seconds("u2"), barrier.loyal_seconds("u1")) == (1.0, 0.0)
    await barrier.admit(4, "u1")
    clock.seconds += calls.LEASE_SECONDS - 1
    with pytest.raises(errors.UnprovenError):
        await barrier.admit(5, "u2")
    clock.seconds += 1
    with pytest.raises(errors.ProtocolError, match="too far above epoch 4"):
        await barrier.admit(5 + calls.EPOCH_STEP, "u2")
    await barrier.admit(5, "u2")
    for known in (barrier, new_fence(folders)):
        assert (known.epoch(), known.unproven_epoch(), known.proven().epoch) == (5, 5, 4)


async def test_a_node_daemon_that_starts_counts_as_having_heard_of_its_master_then(folders: paths.Paths) -> None:
    await new_fence(folders).admit(4, "u1")
    clock, barrier = on_simulated_clock(folders)
    with pytest.raises(errors.UnprovenError):
        await barrier.admit(5, "u2")
    await barrier.admit(5, "u1")  # the master that it obeys
    clock.seconds += calls.LEASE_SECONDS
    await barrier.admit(6, "u2")


async def test_a_proven_epoch_takes_precedence_of_an_unproven_one_whatever_their_numbers(
    folders: paths.Paths,
) -> None:
    clock, barrier = on_simulated_clock(folders)
    barrier.certify(4, "u1")
    await barrier.admit(4, "u1")
    clock.seconds += calls.LEASE_SECONDS
    await barrier.admit(900, "u2")
    # Its bound is that of the proven epoch: it cannot be lifted step by step.
    with pytest.raises(errors.ProtocolError, match="too far above epoch 4"):
        await barrier.admit(900 + calls.EPOCH_STEP, "u2")
    # The proven epoch that was replaced may be that of a former master.
    for use in (barrier.admit(4, "u1"), new_fence(folders).admit(4, "u1")):
        with pytest.raises(errors.NotGrantedError, match=r"obeys a master of epoch 900, of which it has seen no proof"):
            await use
    with pytest.raises(errors.NotGrantedError):
        barrier.check_use(4, "u1", at_least=0)
    assert await barrier.grant(calls.GrantedEpoch(epoch=5, node="node1", uuid="u1"))
    barrier.certify(5, "u1")
    await barrier.admit(5, "u1")
    barrier.check_use(5, "u1", at_least=4)
    for known in (barrier, new_fence(folders)):
        assert (known.epoch(), known.unproven_epoch()) == (5, 0)
    with pytest.raises(errors.UnprovenError):
        await barrier.admit(900, "u2")
    with pytest.raises(errors.FencedError):
        barrier.check_successor(900, "u2")


async def test_a_node_keeps_the_keys_from_before_an_unproven_epoch_until_a_proven_one(folders: paths.Paths) -> None:
    clock, barrier = on_simulated_clock(folders)
    files = ssconf.Files(RealRuntime().disk, folders)
    await files.write({"master_candidates_certs": "u1=key"})
    barrier.certify(4, "u1")
    await barrier.admit(4, "u1")
    barrier.check_trust("do that")
    for epoch in (5, 6):
        clock.seconds += calls.LEASE_SECONDS
        await barrier.admit(epoch, f"u{epoch}")
        await files.write({"master_candidates_certs": f"u{epoch}=key"})
        for known in (barrier, new_fence(folders)):
            assert known.keys() == "u1=key"
            with pytest.raises(errors.WrongStateError, match=f"the proof of epoch {epoch}, so it does not do that"):
                known.check_trust("do that")
    barrier.certify(5, "u1")
    await barrier.admit(5, "u1")
    assert (barrier.keys(), new_fence(folders).keys()) == ("", "")
    barrier.check_trust("do that")


async def test_a_master_that_is_obeyed_for_an_hour_without_dispute_needs_no_proof(folders: paths.Paths) -> None:
    clock, barrier = on_simulated_clock(folders)
    barrier.certify(4, "u1")
    await barrier.admit(4, "u1")
    clock.seconds += calls.LEASE_SECONDS
    await barrier.admit(5, "u2")
    clock.seconds += fence.TRUST_SECONDS - 1
    await barrier.admit(5, "u2")
    with pytest.raises(errors.NotGrantedError):
        await barrier.admit(4, "u1")
    clock.seconds += fence.TRUST_SECONDS - 1
    await barrier.admit(5, "u2")
    assert barrier.unproven_epoch() == 5
    clock.seconds += 1
    await barrier.admit(5, "u2")
    for known in (barrier, new_fence(folders)):
        assert (known.unproven_epoch(), known.proven().epoch, known.keys()) == (0, 5, "")
    with pytest.raises(errors.FencedError, match="epoch 4 has passed"):
        await barrier.admit(4, "u1")


async def test_an_epoch_that_was_proven_belongs_to_no_other_node(folders: paths.Paths) -> None:
    clock, barrier = on_simulated_clock(folders)
    await barrier.admit(1, "u1")
    clock.seconds += calls.LEASE_SECONDS
    barrier.check_use(3, "u2", at_least=0)
    barrier.certify(3, "u1")
    with pytest.raises(errors.NotGrantedError):
        barrier.check_use(3, "u2", at_least=0)
    with pytest.raises(errors.NotGrantedError):
        await barrier.admit(3, "u2")
    barrier.check_use(3, "u1", at_least=0)
    await barrier.admit(3, "u1")


async def test_the_epochs_of_earlier_versions_are_unproven(folders: paths.Paths) -> None:
    """They believed any epoch, so a proven one of a lower number takes precedence."""
    write(f"{folders.lib}/epoch", b"601 u2 %08x\n" % zlib.crc32(b"601 u2") * 2)
    clock, barrier = on_simulated_clock(folders)
    assert (barrier.epoch(), barrier.unproven_epoch(), barrier.obeyed().owner) == (601, 601, "u2")
    clock.seconds += calls.LEASE_SECONDS
    with pytest.raises(errors.FencedError):
        await barrier.admit(2, "u1")
    barrier.certify(2, "u1")
    await barrier.admit(2, "u1")
    assert new_fence(folders).epoch() == 2


async def test_the_error_of_a_grant_to_another_node_differs_from_that_of_a_newer_master(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(4)
    await barrier.grant(calls.GrantedEpoch(epoch=6, node="node2"))
    with pytest.raises(errors.NotGrantedError, match="node7 has granted epoch 6 to node2, and refuses epoch 4"):
        barrier.check_grant(4)
    barrier.check_grant(6)
    barrier.check(4)


async def test_the_furthest_copy_that_was_given_up_is_remembered(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    assert barrier.given_up() == (0, 0)
    await barrier.give_up(3, 90)
    await barrier.give_up(4, 12)
    await barrier.give_up(3, 99)
    assert new_fence(folders).given_up() == (4, 12)
    await barrier.forget()
    assert new_fence(folders).given_up() == (0, 0)
