"""The join token: how long it is valid; and machines that two clusters add at the same time."""

import asyncio

import pytest

from gantry import errors, security
from gantry.node.daemon import wiring
from gantry.node.membership import enrollment
from gantry.rpc import calls
from gantry.runtime import paths, simulated

FOLDERS = paths.Paths.below("/g")
TOKEN = f"{FOLDERS.lib}/join-token"


def secret(machine: simulated.SimulatedRuntime) -> str:
    return security.JoinToken.decode(machine.disk.read(TOKEN).decode()).secret


def join(token: str) -> calls.Join:
    return calls.Join(secret=token, cluster="one", node="node1", uuid="u", address="203.0.113.1")


def test_a_token_ends_after_an_hour_and_another_one_takes_its_place() -> None:
    with simulated.World(seed=1) as world:
        node = world.machine("node1")
        node.spawn(wiring.node(node, FOLDERS, software="sim", secure=False).run("node1", 1811))

        async def scenario() -> None:
            await node.clock.sleep(1)
            first = secret(node)
            node.clock.offset = -86400.0
            await node.clock.sleep(enrollment.TOKEN_SECONDS - 10)
            assert secret(node) == first
            await node.clock.sleep(20)
            assert secret(node) != first

        world.run(scenario())


async def prepared(machine: simulated.SimulatedRuntime) -> enrollment.Enrolment:
    identity = enrollment.Enrolment(machine, FOLDERS, secure=False)
    await identity.prepare()
    return identity


def test_the_secret_of_a_token_that_has_ended_is_refused() -> None:
    with simulated.World(seed=1) as world:
        node = world.machine("node1")

        async def scenario() -> None:
            identity = await prepared(node)
            token = secret(node)
            await node.clock.sleep(enrollment.TOKEN_SECONDS - 1)
            assert "CERTIFICATE REQUEST" in await identity.join(join(token))
            await node.clock.sleep(2)
            with pytest.raises(errors.InvalidError, match="older than 1 h and has ended; use the line that is in /g"):
                await identity.join(join(token))
            with pytest.raises(errors.InvalidError, match="has ended"):
                await identity.enrol(calls.Enrol(secret=token, certificate="", authority=""))

        world.run(scenario())


def test_a_daemon_that_starts_makes_another_token() -> None:
    with simulated.World(seed=1) as world:
        node = world.machine("node1")

        async def scenario() -> None:
            await prepared(node)
            first = secret(node)
            again = await prepared(node)
            assert secret(node) != first
            with pytest.raises(errors.InvalidError, match="the secret is not the one"):
                await again.join(join(first))

        world.run(scenario())


def enrolment(machine: simulated.SimulatedRuntime, request: str, *, cluster: str) -> calls.Enrol:
    """Return the second call of a cluster's master, with a certificate of that cluster's authority."""
    now = machine.clock.now()
    authority = security.make_authority(cluster, now)
    pem = security.issue(authority, request.encode(), uuid="u", name="node1", address="203.0.113.1", now=now)
    certificates = authority.certificates.decode()
    return calls.Enrol(secret=secret(machine), certificate=pem.decode(), authority=certificates)


def test_of_two_clusters_that_add_a_machine_at_the_same_time_only_one_gets_it() -> None:
    with simulated.World(seed=1) as world:
        node = world.machine("node1")

        async def scenario() -> None:
            identity = await prepared(node)
            request = await identity.join(join(secret(node)))
            first, second = (enrolment(node, request, cluster=name) for name in ("one", "two"))
            answers = await asyncio.gather(identity.enrol(first), identity.enrol(second), return_exceptions=True)
            assert [type(answer) for answer in answers] == [type(None), errors.WrongStateError]
            stored = [node.disk.read(f"{FOLDERS.certificates}/{name}.pem").decode() for name in ("node", "authority")]
            assert stored == [first.certificate, first.authority]

        world.run(scenario())


def test_a_machine_that_is_joining_answers_no_other_cluster() -> None:
    with simulated.World(seed=1) as world:
        node = world.machine("node1")

        async def scenario() -> None:
            identity = await prepared(node)
            token = secret(node)
            call = enrolment(node, await identity.join(join(token)), cluster="one")
            answers = await asyncio.gather(identity.enrol(call), identity.join(join(token)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [type(None), errors.WrongStateError]

        world.run(scenario())
