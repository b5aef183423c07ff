"""Attempts to log in: how many wrong passwords are checked, and that they do not keep the right one out."""

import asyncio
import gc
from collections.abc import Iterator, Sequence

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


class KnownUsers:
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
            outcome = "refused" if error.status == 429 else str(error)
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
    outcomes, (outcome, seconds) = world.run(KnownUsers(world).besieged(number, peer=ATTACKER, goes_on=True))
    assert outcome == "right"
    assert seconds < 1
    assert outcomes.count("wrong") <= users.MAX_DELAYED
    assert outcomes.count("refused") == len(outcomes) - outcomes.count("wrong")


def test_60_wrong_passwords_of_the_same_machine_do_not_delay_the_right_one(world: World) -> None:
    _, (outcome, seconds) = world.run(KnownUsers(world).besieged(60, peer=HOME))
    assert outcome == "right"
    assert seconds < 1


def test_the_newest_attempt_is_checked_first(world: World) -> None:
    known_users = KnownUsers(world)

    async def exhausted() -> tuple[str, float]:
        for turn in range(4):
            await asyncio.gather(
                *(known_users.log_in("alice", f"{turn} {each}", HOME) for each in range(attempts.WAITING))
            )
        _, own = await known_users.besieged(attempts.WAITING - 1, peer=HOME)
        return own

    queue_seconds = attempts.WAITING / attempts.PER_SECOND
    outcome, seconds = world.run(exhausted())
    assert outcome == "right"
    assert seconds < 1 < queue_seconds


def test_wrong_passwords_are_checked_at_a_bounded_rate(world: World) -> None:
    known_users = KnownUsers(world)

    async def guess() -> int:
        checked, end = 0, known_users.clock.monotonic() + 30
        number = 0
        running = set[asyncio.Task[tuple[str, float]]]()
        while known_users.clock.monotonic() < end:
            number += 1
            running.add(asyncio.ensure_future(known_users.log_in("alice", f"wrong{number}", ATTACKER)))
            await asyncio.sleep(0.05)
        for task in running:
            checked += (await task)[0] == "wrong"
        return checked

    assert world.run(guess()) <= attempts.BURST + 30 * attempts.PER_SECOND + attempts.WAITING


def test_of_one_user_and_peer_one_password_is_checked_at_a_time(world: World) -> None:
    clock, running, most = world.machine("node1").clock, 0, 0

    async def slow() -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await clock.sleep(0.1)
        running -= 1
        return True

    async def scenario() -> None:
        checks = attempts.Attempts(clock)
        await asyncio.gather(*(checks.check(("alice", HOME), b"%d" % number, slow) for number in range(5)))
        assert most == 1
        await asyncio.gather(*(checks.check((name, HOME), b"x", slow) for name in ("bob", "carol", "dora")))
        assert most == attempts.CONCURRENT_CHECKS

    world.run(scenario())


def test_who_has_guessed_gets_no_new_burst_when_others_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "QUEUES", 3)
    clock = world.machine("node1").clock

    async def scenario() -> float:
        checks = attempts.Attempts(clock)
        for number in range(attempts.BURST):
            assert await checks.check(("alice", ATTACKER), b"%d" % number, wrong) is False
        for name in ("bob", "carol", "dora", "erika"):
            await checks.check((name, ATTACKER), b"x", wrong)
        start = clock.monotonic()
        for number in range(int(attempts.PER_SECOND)):
            await checks.check(("alice", ATTACKER), b"later %d" % number, wrong)
        return clock.monotonic() - start

    async def wrong() -> bool:
        return False

    assert world.run(scenario()) == pytest.approx(1, abs=0.1)


def test_of_users_and_peers_that_count_for_nothing_a_bounded_number_is_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "QUEUES", 3)
    clock = world.machine("node1").clock
    checks = attempts.Attempts(clock)

    async def log_in(number: int, *, is_right: bool) -> tuple[int, int, int]:
        async def verify() -> bool:
            return is_right

        assert await checks.check((f"user{number}", f"192.0.2.{number}"), b"x", verify) is is_right
        return len(checks._queues), len(checks._checked_users), len(checks._guessing_peers)

    async def scenario() -> list[tuple[int, int, int]]:
        right = [await log_in(number, is_right=True) for number in range(5)]
        wrong = [await log_in(number, is_right=False) for number in range(10, 14)]
        await clock.sleep(attempts.GUESSED_SECONDS + 1)
        return [*right, *wrong, await log_in(20, is_right=True)]

    assert world.run(scenario()) == [
        *((1, 1, 0), (2, 2, 0), (3, 3, 0), (1, 4, 0), (2, 5, 0)),
        *((3, 6, 1), (2, 7, 2), (3, 8, 3), (4, 9, 4)),
        (1, 1, 0),
    ]


def test_a_wrong_password_is_answered_after_a_second_whoever_the_user_is(world: World) -> None:
    known_users = KnownUsers(world)
    for name in ("alice", "nobody"):
        outcome, seconds = world.run(known_users.log_in(name, "wrong", ATTACKER))
        assert outcome == "wrong"
        assert seconds >= users.WRONG_PASSWORD_SECONDS


def test_a_wrong_password_counts_as_delayed_only_until_its_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "MAX_DELAYED", 1)
    known_users = KnownUsers(world)
    assert [world.run(known_users.log_in("alice", f"wrong{each}", HOME))[0] for each in range(3)] == ["wrong"] * 3


@pytest.mark.parametrize("more", [0, 1])
def test_the_oldest_attempt_is_refused_if_more_than_the_limit_wait(world: World, more: int) -> None:
    costly_checks = CostlyChecks(world, seconds=0)

    async def together() -> list[bool | None]:
        for _ in range(2):
            await costly_checks.guess(("alice", HOME), attempts.BURST // 2)
        guesses = [costly_checks.guess(("alice", HOME), 1) for _ in range(attempts.WAITING + more)]
        return [result for results in await asyncio.gather(*guesses) for result in results]

    assert world.run(together()) == [None] * more + [False] * attempts.WAITING


CHECK_SECONDS = 0.4
"""Of bcrypt with a cost of 12, on a slow processor."""


class CostlyChecks:
    """Attempts at passwords whose checks take their time."""

    def __init__(self, world: World, *, seconds: float = CHECK_SECONDS) -> None:
        self.clock = world.machine("node1").clock
        self.check_seconds = seconds
        self.checks = attempts.Attempts(self.clock)
        self.running = self.most = self.guesses = 0

    async def attempt(self, key: attempts.Key, password: str) -> bool | None:
        async def verify() -> bool:
            self.running += 1
            self.most = max(self.most, self.running)
            await self.clock.sleep(self.check_seconds)
            self.running -= 1
            return password == "right"

        return await self.checks.check(key, password.encode(), verify)

    async def seconds(self, key: attempts.Key) -> float:
        """Log in with the right password, which must succeed; return how long that took."""
        start = self.clock.monotonic()
        assert await self.attempt(key, "right") is True
        return self.clock.monotonic() - start

    async def guess(self, key: attempts.Key, number: int) -> list[bool | None]:
        """Try wrong passwords at the same time."""
        self.guesses += number
        passwords = range(self.guesses - number, self.guesses)
        return await asyncio.gather(*(self.attempt(key, f"wrong{each}") for each in passwords))

    async def go_on_guessing(self, key: attempts.Key) -> None:
        while True:
            await self.guess(key, 1)
            await self.clock.sleep(0.01)

    async def besieged(self, guessers: Sequence[attempts.Key], honest: attempts.Key) -> list[float]:
        """Return the seconds of the honest client's first log-ins, each at another moment of the siege."""
        tasks = [asyncio.ensure_future(self.go_on_guessing(key)) for key in guessers]
        await asyncio.sleep(0)  # the first guesses come before the honest client
        seconds = []
        for number in range(100):
            seconds.append(await self.seconds(honest))
            await self.clock.sleep(0.07 + number / 1000)
        for task in tasks:
            task.cancel()
        return seconds


ELSEWHERE = [f"198.51.100.{number}" for number in range(60)]


@pytest.mark.parametrize(
    "guessers",
    [
        [("bob", ATTACKER)] * 60,
        [("bob", HOME)] * 60,
        [("bob", peer) for peer in ELSEWHERE],
        [("", peer) for peer in ELSEWHERE],
        [("alice", ATTACKER)] * 60,
        [(f"user{number}", ATTACKER) for number in range(60)],
        [(f"user{number % 3}", peer) for number, peer in enumerate(ELSEWHERE)],
    ],
    ids=["one address", "the same address", "60 addresses", "no user", "the same user", "60 users", "3 users"],
)
def test_guessers_do_not_delay_the_first_log_in_of_anybody_else(world: World, guessers: list[attempts.Key]) -> None:
    costly_checks = CostlyChecks(world)
    assert max(world.run(costly_checks.besieged(guessers, ("alice", HOME)))) < 1
    assert costly_checks.most <= attempts.CONCURRENT_CHECKS


def test_users_and_their_addresses_take_turns(world: World) -> None:
    costly_checks = CostlyChecks(world)
    checked: list[attempts.Key] = []

    async def together() -> None:
        keys = [("alice", HOME), ("alice", ATTACKER), ("bob", ATTACKER)]

        async def wrong_password(key: attempts.Key) -> None:
            await costly_checks.guess(key, 1)
            checked.append(key)

        await asyncio.gather(*(costly_checks.guess(key, 1) for key in keys))  # from now on all have the same standing
        await asyncio.gather(*(wrong_password(key) for key in keys for _ in range(4)))

    world.run(together())
    users_in_order = [user for user, _ in checked]
    assert users_in_order == ["alice", "bob"] * 4 + ["alice"] * 4
    peers_of_alice = [peer for user, peer in checked if user == "alice"]
    assert peers_of_alice[0::2] == [peers_of_alice[0]] * 4 != peers_of_alice[1::2] == [peers_of_alice[1]] * 4


@pytest.mark.parametrize("position", [0, 1, 50, attempts.BURST - 1])
def test_as_many_attempts_as_the_burst_are_all_checked_if_they_arrive_at_once(world: World, position: int) -> None:
    costly_checks = CostlyChecks(world)
    key = ("alice", HOME)

    async def together() -> list[bool | None]:
        passwords = [f"wrong{number}" for number in range(attempts.BURST - 1)]
        passwords.insert(position, "right")
        return await asyncio.gather(*(costly_checks.attempt(key, each) for each in passwords))

    results = world.run(together())
    assert [number for number, result in enumerate(results) if result] == [position]
    assert None not in results


def test_the_attempt_of_a_user_who_has_not_guessed_is_not_refused_for_those_of_many_addresses(world: World) -> None:
    costly_checks = CostlyChecks(world)

    async def together() -> list[bool | None]:
        guesses = [asyncio.ensure_future(costly_checks.guess(("bob", f"10.0.0.{each}"), 1)) for each in range(200)]
        await asyncio.sleep(0)
        own = asyncio.ensure_future(costly_checks.attempt(("alice", HOME), "right"))
        more = [asyncio.ensure_future(costly_checks.guess(("bob", f"10.0.1.{each}"), 1)) for each in range(200)]
        assert await own is True
        return [result for guess in (*guesses, *more) for result in await guess]

    assert world.run(together()).count(None) > 200


def test_a_check_that_fails_reports_its_error_and_the_others_go_on(world: World) -> None:
    checks = attempts.Attempts(world.machine("node1").clock)

    async def broken() -> bool:
        raise OSError("the other end is gone")

    async def right() -> bool:
        return True

    async def together() -> None:
        with pytest.raises(OSError, match="the other end is gone"):
            await checks.check(("alice", HOME), b"1", broken)
        assert await checks.check(("alice", HOME), b"2", right)

    world.run(together())


def test_a_right_password_is_remembered_for_minutes_and_until_the_file_changes(world: World) -> None:
    known_users = KnownUsers(world)
    checks = []
    verify = known_users.users._verify

    async def counted(user: users.User | None, password: str, digest: bytes) -> bool:
        checks.append(password)
        return await verify(user, password, digest)

    known_users.users._verify = counted  # type: ignore[method-assign]

    async def log_in(seconds: float) -> int:
        await known_users.clock.sleep(seconds)
        assert (await known_users.log_in("alice", "right", HOME))[0] == "right"
        return len(checks)

    most = users.REMEMBERED_SECONDS
    assert [world.run(log_in(seconds)) for seconds in (0, most - 1, most - 1, most + 1)] == [1, 1, 1, 2]
    world.run(known_users.clock.sleep(1))
    world.run(known_users.users._runtime.disk.write(PATH, b"alice right read\n"))
    assert world.run(log_in(0)) == 3
    assert b"right" not in repr(known_users.users._proven).encode()


def test_many_clients_with_the_same_right_password_are_all_accepted_at_once(world: World) -> None:
    known_users = KnownUsers(world)

    async def together() -> list[tuple[str, float]]:
        return await asyncio.gather(*(known_users.log_in("alice", "right", HOME) for _ in range(200)))

    assert {outcome for outcome, _ in world.run(together())} == {"right"}


def test_attempts_from_many_addresses_leave_the_queue_of_another_alone(world: World) -> None:
    known_users = KnownUsers(world)

    async def besieged() -> tuple[list[str], tuple[str, float]]:
        guesses = [
            asyncio.ensure_future(known_users.log_in("alice", f"wrong{each}", f"198.51.100.{each % 20}"))
            for each in range(1000)
        ]
        await asyncio.sleep(0.01)
        own = await known_users.log_in("alice", "right", HOME)
        return [(await guess)[0] for guess in guesses], own

    outcomes, (outcome, seconds) = world.run(besieged())
    assert outcome == "right"
    assert seconds < 1
    assert outcomes.count("wrong") <= users.MAX_DELAYED + attempts.WAITING_IN_ALL


def test_ipv6_addresses_of_one_network_are_one_peer(world: World) -> None:
    known_users = KnownUsers(world)

    async def guess() -> list[str]:
        tasks = [known_users.log_in("alice", f"wrong{each}", f"2001:db8::{each:x}") for each in range(1, 61)]
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
