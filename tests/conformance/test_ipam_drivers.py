"""What a cluster's users see of addresses, whoever has the last word on them: the state alone, or a database."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres
from tests.ipam.sql.lab import Lab

from gantry import errors
from gantry.runtime import simulated

POOL = [f"192.0.2.{number}" for number in (10, 11, *range(13, 20))]
"""The addresses that the pool of the lab allocates: 192.0.2.12 is reserved externally."""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.running() as running:
        yield running


_number = itertools.count()


@pytest.fixture(params=["embedded", "sqlite", pytest.param("postgresql", marks=postgres.NEEDS)])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with simulated.World(seed=3) as world:
        lab = Lab(world)
        world.run(lab.start())
        if request.param == "sqlite":
            world.run(lab.switch("sql", f"sqlite://{tmp_path}/ipam.db"))
        elif request.param == "postgresql":
            server: postgres.Server = request.getfixturevalue("server")
            world.run(lab.switch("sql", server.create(f"conformance{next(_number)}")))
        yield lab


def test_pools_allocate_the_lowest_address_first_without_reserved_addresses(lab: Lab) -> None:
    assert [lab.run(lab.add_port())[0] for _ in POOL] == POOL


def test_a_full_pool_is_reported_and_reallocates_a_released_address(lab: Lab) -> None:
    lab.run(lab.add_port(count=len(POOL)))
    with pytest.raises(errors.NoRoomError):
        lab.run(lab.add_port())
    lab.run(lab.remove_port(POOL[4]))
    assert lab.run(lab.add_port()) == [POOL[4]]


def test_concurrent_jobs_get_different_addresses(lab: Lab) -> None:
    async def scenario() -> list[str]:
        return [ip for allocated in await asyncio.gather(*(lab.add_port() for _ in POOL)) for ip in allocated]

    assert sorted(lab.run(scenario())) == POOL


def test_all_or_no_addresses_of_a_job_are_allocated(lab: Lab) -> None:
    lab.run(lab.add_port(count=len(POOL) - 1))
    with pytest.raises(errors.NoRoomError):
        lab.run(lab.add_port(count=2))
    assert lab.allocated() == {*POOL[:-1]}
    assert lab.run(lab.add_port()) == [POOL[-1]]


def test_a_specific_address_is_allocated_once(lab: Lab) -> None:
    assert lab.run(lab.add_port("192.0.2.200")) == ["192.0.2.200"]
    with pytest.raises(errors.NotUniqueError, match=r"192\.0\.2\.200"):
        lab.run(lab.add_port("192.0.2.200"))
    lab.run(lab.remove_port("192.0.2.200"))
    assert lab.run(lab.add_port("192.0.2.200")) == ["192.0.2.200"]


def test_addresses_that_cannot_be_allocated_are_refused(lab: Lab) -> None:
    for ip, kind in (
        ("198.51.100.1", errors.InvalidError),
        ("192.0.2.255", errors.InvalidError),
        ("192.0.2.12", errors.WrongStateError),
    ):
        with pytest.raises(kind):
            lab.run(lab.add_port(ip))
    assert lab.allocated() == set()


def test_ports_and_instances_share_the_pools(lab: Lab) -> None:
    lab.run(lab.add_instance("vm1.example"))
    assert lab.run(lab.add_port()) == [POOL[1]]
    lab.run(lab.remove_instance("vm1.example"))
    assert lab.run(lab.add_port()) == [POOL[0]]


def test_allocations_survive_a_restart(lab: Lab) -> None:
    addresses = lab.run(lab.add_port(count=3))
    lab.run(lab.restart())
    assert lab.allocated() == {*addresses}
    assert lab.run(lab.add_port()) == [POOL[3]]


def test_a_network_comes_goes_and_comes_again_with_its_addresses(lab: Lab) -> None:
    async def scenario() -> None:
        subnet = {"cidr": "10.0.0.0/29", "pools": ["10.0.0.2-10.0.0.6"], "uuid": "33333333-0000-4000-8000-000000000003"}
        for cidr, first in (("10.0.0.0/29", "10.0.0.2"), ("10.0.0.0/28", "10.0.0.2")):
            await lab.job({"OP_ID": "OP_NETWORK_ADD", "network_name": "n2", "subnets": [subnet | {"cidr": cidr}]})
            rows = await lab.job({"OP_ID": "OP_PORT_ADD", "ports": [{"network": "n2"}]})
            assert isinstance(rows, list)
            assert rows[0]["ip"] == (first,) or rows[0]["ip"] == [first]
            await lab.job({"OP_ID": "OP_PORT_REMOVE", "port": rows[0]["uuid"]})
            await lab.job({"OP_ID": "OP_NETWORK_REMOVE", "network_name": "n2"})

    lab.run(scenario())


def test_a_pool_that_grows_hands_out_more(lab: Lab) -> None:
    lab.run(lab.add_port(count=len(POOL)))
    change = {"action": "add", "range": "192.0.2.30-192.0.2.31"}
    lab.run(lab.job({"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "lab", "pools": [change]}))
    assert lab.run(lab.add_port()) == ["192.0.2.30"]
