"""The epoch of the master that a node obeys."""

import os

import pytest

from gantry import errors
from gantry.node.membership import fence, ssconf
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime


def new_fence(folders: paths.Paths) -> fence.Fence:
    runtime = RealRuntime("node7")
    return fence.Fence(runtime, folders, files=ssconf.Files(runtime.disk, folders))


async def test_a_master_of_a_lower_epoch_is_refused_and_the_error_names_the_newer_master(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(0, fenced=True)
    await barrier.admit(4, fenced=True)
    await ssconf.Files(RealRuntime().disk, folders).write({"master_node": "node2"})
    await barrier.admit(4, fenced=True)
    with pytest.raises(
        errors.FencedError, match=r"epoch 3 has passed: node7 .*in epoch 4, and its ssconf files name node2 as"
    ):
        await barrier.admit(3, fenced=True)
    with pytest.raises(errors.FencedError, match="epoch 0 has passed"):
        await barrier.admit(0, fenced=True)
    await barrier.admit(3, fenced=False)


async def test_a_call_that_is_not_fenced_raises_the_epoch_too(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(2, fenced=False)
    with pytest.raises(errors.FencedError):
        await barrier.admit(1, fenced=True)


async def test_the_epoch_survives_the_daemon_and_ends_with_the_membership(folders: paths.Paths) -> None:
    await new_fence(folders).admit(9, fenced=True)
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
        await barrier.admit(5, fenced=True)
    os.rename(f"{folders.lib}-gone", f"{folders.lib}")
    assert barrier.epoch() == 0


async def test_an_epoch_is_promised_to_one_only_and_to_that_one_again(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(4, fenced=True)
    assert not await barrier.promise(calls.Promised(epoch=4, node="node1"))
    assert await barrier.promise(calls.Promised(epoch=5, node="node1"))
    assert not await barrier.promise(calls.Promised(epoch=5, node="node2"))
    assert await new_fence(folders).promise(calls.Promised(epoch=5, node="node1"))
    assert await barrier.promise(calls.Promised(epoch=7, node="node2"))
    assert barrier.promised() == calls.Promised(epoch=7, node="node2")
    await barrier.forget()
    assert barrier.promised() == calls.Promised()


async def test_the_error_of_a_promise_to_another_node_differs_from_that_of_a_newer_master(folders: paths.Paths) -> None:
    barrier = new_fence(folders)
    await barrier.admit(4, fenced=True)
    await barrier.promise(calls.Promised(epoch=6, node="node2"))
    with pytest.raises(errors.PromisedError, match="node7 has promised epoch 6 to node2, and refuses epoch 4"):
        barrier.check_promise(4)
    barrier.check_promise(6)
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
