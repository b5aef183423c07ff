"""Attempts to log in: how many wrong passwords are checked, and that they do not keep the right one out."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from gantry.doors import http
from gantry.doors.http import attempts, users
from gantry.runtime.simulated import World

PATH = "/users"
ATTACKER, HOME = "192.0.2.66", "192.0.2.1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=1) as new_world:
        yield new_world


class Site:
    """The users of a machine: alice, whose password is ``right``, and bob."""

    def __init__(self, world: World) -> None:
        self.world = world
        machine = world.machine("node1")
        world.run(machine.disk.write(PATH, b"alice right write\nbob secret write\n"))
        self.users = users.Users(machine, PATH)
        self.clock = machine.clock

    async def log_in(self, name: str, password: str, peer: str) -> tuple[str, float]:
        """Return what became of an attempt, and after how many seconds."""
        start = self.clock.monotonic()
        try:
            user = await self.users.check(name, password, peer=peer)
            outcome = "right" if user else "wrong"
        except http.RefusedError as error:
            outcome = "refused" if (error.status, error.headers.get("Retry-After")) == (429, "1") else str(error)
        return outcome, self.clock.monotonic() - start

    async def besieged(self, number: int, *, peer: str, goes_on: bool = False) -> tuple[list[str], tuple[str, float]]:
        """Return the outcomes of wrong passwords, and that of alice's own attempt amid or after them."""
        guesses = [self.log_in("alice", f"wrong{each}", peer) for each in range(number)]
        own = self.log_in("alice", "right", HOME)
        later = [self.log_in("alice", f"late{each}", peer) for each in range(number if goes_on else 0)]
        outcomes = await asyncio.gather(*guesses, own, *later)
        return [outcome for outcome, _ in (*outcomes[:number], *outcomes[number + 1 :])], outcomes[number]


@pytest.mark.parametrize("number", [60, 300])
def test_wrong_passwords_of_another_machine_do_not_delay_the_right_one(world: World, number: int) -> None:
    outcomes, (outcome, seconds) = world.run(Site(world).besieged(number, peer=ATTACKER, goes_on=True))
    assert outcome == "right"
    assert seconds < 1
    assert outcomes.count("wrong") <= users.MAX_DELAYED
    assert outcomes.count("refused") == len(outcomes) - outcomes.count("wrong")


def test_60_wrong_passwords_of_the_same_machine_do_not_delay_the_right_one(world: World) -> None:
    _, (outcome, seconds) = world.run(Site(world).besieged(60, peer=HOME))
    assert outcome == "right"
    assert seconds < 1


def test_the_newest_attempt_is_checked_first(world: World) -> None:
    site = Site(world)

    async def exhausted() -> tuple[str, float]:
        for turn in range(4):
            await asyncio.gather(*(site.log_in("alice", f"{turn} {each}", HOME) for each in range(attempts.WAITING)))
        _, own = await site.besieged(attempts.WAITING - 1, peer=HOME)
        return own

    queue_seconds = attempts.WAITING / attempts.PER_SECOND
    outcome, seconds = world.run(exhausted())
    assert outcome == "right"
    assert seconds < 1 < queue_seconds


def test_wrong_passwords_are_checked_at_a_bounded_rate(world: World) -> None:
    site = Site(world)

    async def guess() -> int:
        checked, end = 0, site.clock.monotonic() + 30
        number = 0
        running = set[asyncio.Task[tuple[str, float]]]()
        while site.clock.monotonic() < end:
            number += 1
            running.add(asyncio.ensure_future(site.log_in("alice", f"wrong{number}", ATTACKER)))
            await asyncio.sleep(0.05)
        for task in running:
            checked += (await task)[0] == "wrong"
        return checked

    assert world.run(guess()) <= attempts.BURST + 30 * attempts.PER_SECOND + attempts.WAITING


def test_a_wrong_password_is_answered_after_a_second_whoever_the_user_is(world: World) -> None:
    site = Site(world)
    for name in ("alice", "nobody"):
        outcome, seconds = world.run(site.log_in(name, "wrong", ATTACKER))
        assert outcome == "wrong"
        assert seconds >= users.WRONG_PASSWORD_SECONDS


def test_a_wrong_password_counts_as_delayed_only_until_its_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "MAX_DELAYED", 1)
    site = Site(world)
    assert [world.run(site.log_in("alice", f"wrong{each}", HOME))[0] for each in range(3)] == ["wrong"] * 3


@pytest.mark.parametrize("more", [0, 1])
def test_the_oldest_attempt_is_refused_if_more_than_the_limit_wait(world: World, more: int) -> None:
    checks = attempts.Attempts(world.machine("node1").clock)

    async def verify() -> bool:
        return False

    async def together() -> list[bool | None]:
        passwords = [str(number).encode() for number in range(attempts.WAITING + more)]
        return await asyncio.gather(*(checks.check(("alice", HOME), each, verify) for each in passwords))

    assert world.run(together()) == [None] * more + [False] * attempts.WAITING


def test_many_clients_with_the_same_right_password_are_all_accepted_at_once(world: World) -> None:
    site = Site(world)

    async def together() -> list[tuple[str, float]]:
        return await asyncio.gather(*(site.log_in("alice", "right", HOME) for _ in range(200)))

    assert {outcome for outcome, _ in world.run(together())} == {"right"}


def test_attempts_from_many_addresses_leave_the_queue_of_another_alone(world: World) -> None:
    site = Site(world)

    async def besieged() -> tuple[list[str], tuple[str, float]]:
        guesses = [
            asyncio.ensure_future(site.log_in("alice", f"wrong{each}", f"198.51.100.{each % 20}"))
            for each in range(1000)
        ]
        await asyncio.sleep(0.01)
        own = await site.log_in("alice", "right", HOME)
        return [(await guess)[0] for guess in guesses], own

    outcomes, (outcome, seconds) = world.run(besieged())
    assert outcome == "right"
    assert seconds < 1
    assert outcomes.count("wrong") <= users.MAX_DELAYED + attempts.WAITING_IN_ALL


def test_ipv6_addresses_of_one_network_are_one_peer(world: World) -> None:
    site = Site(world)

    async def guess() -> list[str]:
        tasks = [site.log_in("alice", f"wrong{each}", f"2001:db8::{each:x}") for each in range(1, 61)]
        return [outcome for outcome, _ in await asyncio.gather(*tasks)]

    assert world.run(guess()).count("wrong") <= attempts.WAITING


def test_attempts_of_more_peers_than_may_wait_are_all_answered(world: World) -> None:
    checks = attempts.Attempts(world.machine("node1").clock)
    faults: list[object] = []
    world.loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))

    async def many() -> list[bool | None]:
        gate = asyncio.Event()

        async def verify() -> bool:
            return not await gate.wait()

        tasks = []
        for number in range(attempts.WAITING_IN_ALL + 20):
            tasks.append(asyncio.ensure_future(checks.check(("alice", f"192.0.2.{number}"), b"wrong", verify)))
            await asyncio.sleep(0.01)  # each of the earlier ones waits for its check
        gate.set()
        return await asyncio.gather(*tasks)

    results = world.run(many())
    gc.collect()
    assert set(results) == {False, None}
    assert faults == []
