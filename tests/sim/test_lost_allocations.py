"""Addresses in a shared database that a master allocates or releases alone, after another has become the master."""

from collections.abc import Iterator

import pytest

from gantry.sim import acknowledged, built, client, cluster, copies, facts, outcome, story
from gantry.sim.hardware import databases
from gantry.state.candidates import replication

SQL: cluster.Opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_driver": "sql", "ipam_database": databases.URL}
NETWORK: cluster.Opcode = {
    "OP_ID": "OP_NETWORK_ADD",
    "network_name": "net1",
    "subnets": [{"cidr": "192.0.2.0/24"}],
    "pools": [{"range": "192.0.2.10-192.0.2.13", "name": "lan4"}],
}
FIRST, SECOND = "00000001-0000-4000-8000-000000000001", "00000001-0000-4000-8000-000000000002"


def port(uuid: str, ip: str) -> cluster.Opcode:
    return {"OP_ID": "OP_PORT_ADD", "ports": [{"network": "net1", "uuid": uuid, "fixed": [{"ip": ip}]}]}


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=3) as simulated:
        simulated.run(simulated.build(replication="seed"))
        simulated.run(simulated.done(SQL))
        simulated.run(simulated.done(NETWORK))
        simulated.run(simulated.done(port(FIRST, "192.0.2.10")))
        yield simulated


class Split:
    """A cluster whose master, node1, is cut off while node2 takes its role over; ``found`` has the frames of both."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self.lab = lab
        self.found = copies.Copies(lab)
        # The end of the opcode's job, and the addresses in the database before the cable heals.
        self.job: tuple[str, list[object]] = ("", [])
        self.stored_while_cut: set[str] = set()

    def _cable(self, *, cut: bool) -> None:
        network = self.lab.world.network
        for other in self.lab.names:
            if other != "node1":
                (network.partition if cut else network.heal)("node1", other)

    def look(self) -> None:
        for name in self.lab.names:
            self.found.end(name)

    async def play(self, op: cluster.Opcode, *, first: bool = False) -> None:
        """Let node1 carry out an opcode alone, ``first`` or after node2 has become the master; then the cable heals."""
        self._cable(cut=True)
        if first:
            await self._run(op)
        await self.lab.failover("node2")
        await self.lab.world.clock.sleep(10)
        if not first:
            await self._run(op)
        await self.lab.world.clock.sleep(10)
        self.look()
        self.stored_while_cut = self.stored()
        self._cable(cut=False)
        await self.lab.world.clock.sleep(120)
        assert self.lab.masters() == ["node2"]
        self.look()

    async def _run(self, op: cluster.Opcode) -> None:
        self.job = await self.lab.wait(await self.lab.submit(op, on="node1"), on="node1")

    async def check(self) -> None:
        """Check the database as a scenario does at its end."""
        known, lab = facts.Facts(), self.lab
        acknowledgements = acknowledged.Acknowledgements(lab, self.found, candidates=lab.names)
        clients = client.Clients(lab, known, acknowledgements, story=story.Story(lab.world.clock))
        kind = built.Kind(3, 10, "seed")
        end = outcome.Outcome(lab, clients, acknowledgements=acknowledgements, found_copies=self.found, kind=kind)
        await end._check_database()

    def stored(self) -> set[str]:
        return {ip for _, ip, _ in self.lab.database.allocations()}


@pytest.fixture
def split(lab: cluster.SimulatedCluster) -> Split:
    return Split(lab)


def test_an_address_that_the_successor_has_stays_in_the_database(split: Split) -> None:
    split.lab.run(split.play({"OP_ID": "OP_PORT_REMOVE", "port": FIRST}))
    assert split.job[0] == "success"
    assert split.stored() == {"192.0.2.10"}
    split.lab.run(split.check())


def test_an_address_that_only_the_replaced_master_has_stays_until_its_node_follows_the_successor(split: Split) -> None:
    split.lab.run(split.play(port(SECOND, "192.0.2.11"), first=True))
    assert split.stored_while_cut == {"192.0.2.10", "192.0.2.11"}
    assert split.stored() == {"192.0.2.10"}
    split.lab.run(split.check())


def test_a_master_allocates_nothing_in_the_database_after_its_successor_has_started(split: Split) -> None:
    split.lab.run(split.play(port(SECOND, "192.0.2.11")))
    status, results = split.job
    assert status == "error"
    assert "a later master, of epoch" in str(results)
    assert split.stored_while_cut == split.stored() == {"192.0.2.10"}


@pytest.fixture
def surplus(split: Split, monkeypatch: pytest.MonkeyPatch) -> Split:
    """The cluster after a split whose master did not release what only the replaced master had."""
    with monkeypatch.context() as patched:
        patched.setattr(replication.Candidates, "may_be_superseded", True)
        split.lab.run(split.play(port(SECOND, "192.0.2.11"), first=True))
    assert split.stored() == {"192.0.2.10", "192.0.2.11"}
    return split


def test_an_address_that_only_a_replaced_master_has_is_removed_at_the_next_start(surplus: Split) -> None:
    async def restart() -> None:
        await surplus.lab.stop_master("node2")
        assert surplus.stored() == {"192.0.2.10", "192.0.2.11"}
        await surplus.lab.start_master("node2")
        await surplus.lab.world.clock.sleep(10)

    surplus.lab.run(restart())
    assert surplus.stored() == {"192.0.2.10"}
    surplus.lab.run(surplus.check())


def test_no_address_that_the_state_lacks_may_be_in_the_database(surplus: Split) -> None:
    with pytest.raises(story.Violation, match=r"192\.0\.2\.11 in the database"):
        surplus.lab.run(surplus.check())
