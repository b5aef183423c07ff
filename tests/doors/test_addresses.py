"""Who has an address, and had it: the answer of the master and of the remote API, from a simulated cluster."""

import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.doors import talk

from gantry.doors.luxi import addresses
from gantry.sim import cluster

NET = "addr"


@pytest.fixture(scope="module")
def lab() -> Iterator[cluster.SimulatedCluster]:
    with cluster.SimulatedCluster(seed=3, nodes=1) as lab:
        lab.run(lab.build())
        subnet = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}
        pool = {"range": "192.0.2.10-192.0.2.19"}
        network = {"network_name": NET, "subnets": [subnet], "pools": [pool], "add_reserved_ips": ["192.0.2.50"]}
        done(lab, {"OP_ID": "OP_NETWORK_ADD", **network})
        yield lab


def done(lab: cluster.SimulatedCluster, op: dict[str, object]) -> int:
    number = lab.run(lab.submit({**op, "reason": [["gnt:user", "order 17", 1]]}))
    status, results = lab.run(lab.wait(number))
    assert status == "success", results
    return number


def create(lab: cluster.SimulatedCluster, name: str, *ips: str) -> int:
    port = {"network": NET, "name": name, "uuid": uuid_of(name), "fixed": [{"ip": ip} for ip in ips]}
    return done(lab, {"OP_ID": "OP_PORT_ADD", "ports": [port]})


def remove(lab: cluster.SimulatedCluster, name: str) -> int:
    return done(lab, {"OP_ID": "OP_PORT_REMOVE", "port": uuid_of(name)})


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def answer(lab: cluster.SimulatedCluster, text: str, *, at: float | None = None, past: bool = False) -> Any:
    return lab.run(lab.luxi("QueryAddress", text, at, past, 1000))


def rows(lab: cluster.SimulatedCluster, text: str, **question: Any) -> list[tuple[object, ...]]:
    keys = ("state", "owner", "job")
    return [tuple(row[key] for key in keys) for row in answer(lab, text, **question)["rows"]]


def test_the_answer_says_since_when_and_by_which_job_and_user(lab: cluster.SimulatedCluster) -> None:
    job = create(lab, "a.example", "192.0.2.20")
    moment = lab.world.clock.now()
    done(lab, {"OP_ID": "OP_PORT_SET_PARAMS", "port": uuid_of("a.example"), "description": "changed"})
    create(lab, "b.example", "192.0.2.21")
    (row,) = answer(lab, "192.0.2.20")["rows"]
    assert (row["network"], row["state"], row["kind"], row["owner"], row["nic"]) == (
        *(NET, "in use", "port"),
        *("a.example", None),
    )
    assert (row["job"], row["opcode"]) == (job, "OP_PORT_ADD")
    assert moment - 60 < row["from"] <= moment
    assert "order 17" in row["reason"]
    assert row["user"] == "gnt:user"


def test_the_network_answers_for_its_gateway_and_reservations_and_the_node_for_its_own(
    lab: cluster.SimulatedCluster,
) -> None:
    (gateway,), (external,) = (answer(lab, text)["rows"] for text in ("192.0.2.1", "192.0.2.50"))
    assert (gateway["state"], gateway["opcode"]) == ("gateway", "OP_NETWORK_ADD")
    assert (external["state"], external["opcode"], external["job"]) == ("external", "OP_NETWORK_ADD", gateway["job"])
    (node,) = answer(lab, lab.address("node1"))["rows"]
    assert (node["state"], node["owner"]) == ("node", "node1")
    assert node["from"] is not None


def test_an_address_in_quarantine_has_its_last_owner_and_its_end(lab: cluster.SimulatedCluster) -> None:
    done(lab, {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_hold_time": 3600})
    create(lab, "q.example", "192.0.2.30")
    removal = remove(lab, "q.example")
    (row,) = answer(lab, "192.0.2.30")["rows"]
    assert (row["state"], row["owner"], row["job"]) == ("quarantined", "q.example", removal)
    assert row["to"] == pytest.approx(row["from"] + 3600, abs=60)
    done(lab, {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipam_hold_time": 0})


def test_the_past_has_the_owners_of_a_moment_or_all(lab: cluster.SimulatedCluster) -> None:
    before = lab.world.clock.now()
    lab.run(lab.world.clock.sleep(60))
    first = create(lab, "old.example", "192.0.2.40")
    between = lab.world.clock.now()
    lab.run(lab.world.clock.sleep(60))
    remove(lab, "old.example")
    lab.run(lab.world.clock.sleep(60))
    second = create(lab, "new.example", "192.0.2.40")
    for text in ("192.0.2.40", "192.0.2.40/31"):
        assert rows(lab, text, at=before) == []
        assert rows(lab, text, at=between) == [("in use", "old.example", first)]
        assert rows(lab, text, past=True) == [
            ("was in use", "old.example", first),
            ("in use", "new.example", second),
        ]
    assert rows(lab, "old.example", past=True) == [("was in use", "old.example", first)]
    assert rows(lab, "192.0.2.50", at=between) == [("external", "", None)]
    assert answer(lab, "192.0.2.40", past=True)["rows"][0]["network"] == NET


def test_an_address_without_an_owner_is_free_and_unknown_ones_are_refused(lab: cluster.SimulatedCluster) -> None:
    assert rows(lab, "192.0.2.99") == [("free", "", None)]
    assert rows(lab, "10.9.0.0/16") == []
    for arguments, problem in (
        (("10.9.9.9", None, False, 10), "no network has a subnet with 10.9.9.9"),
        (("aa:00:00:00:00:99", None, False, 10), "no NIC and no port has the MAC address"),
        (("nobody", None, False, 10), "no instance, port, node or network with an address is named nobody"),
        (("192.0.2.999", None, False, 10), "not an IP address"),
        ((NET, None, True, 10), "addr is a network"),
        (("192.0.2.1", None, False, 0), "is not between 1 and"),
        (("192.0.2.1", None, False, addresses.ROW_LIMIT + 1), "is not between 1 and"),
    ):
        assert problem in talk.failure(lab, "QueryAddress", *arguments)[1]


def test_more_rows_than_asked_for_and_too_many_to_date_are_said(
    lab: cluster.SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lab, "many.example", "192.0.2.60")
    limited = cast("dict[str, Any]", lab.run(lab.luxi("QueryAddress", "192.0.2.0/24", None, False, 1)))
    assert (len(limited["rows"]), limited["complete"]) == (1, False)
    assert answer(lab, "192.0.2.0/24")["dated"]
    monkeypatch.setattr(addresses, "ORIGINS", 1)
    assert not answer(lab, "192.0.2.0/24")["dated"]
