"""An introduction of a master to a node that does not know it: whom it asks, how often, and whom the node believes."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.rpc import test_client
from tests.sim import broken_nodes
from tests.sim.broken_nodes import Answer, never_ends, reports, says
from tests.state import build

from gantry import errors
from gantry.mastership import introduction
from gantry.rpc import calls, client
from gantry.runtime import http_interface
from gantry.sim import cluster
from gantry.state.objects import snapshot as states

CANDIDATES = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
AWAY = "192.0.2.4"
KEYS = "/gantry/lib/ssconf/ssconf_master_candidates_certs"
ALL_KEYS = [*range(calls.EARLIER_KEYS + 1)]

Reply = Callable[[str], http_interface.Response]


def fault(*pair: object, status: int = 200) -> Reply:
    """Answer that a call has failed, with the name of an error and its arguments."""
    return lambda host: http_interface.Response(status, msgspec.json.encode((False, pair)))


def silence(host: str) -> http_interface.Response:
    raise TimeoutError


def agreement(host: str) -> http_interface.Response:
    return test_client.ok(None)


def voucher(host: str) -> http_interface.Response:
    return test_client.ok({"epoch": 1, "certificate": "the candidate's", "signature": "00"})


DISBELIEF = fault("LuxiError", ["no master candidate that this node knows vouches for the caller"])


FENCED = fault("OpPrereqError", ["the voucher is of an earlier epoch", "wrong_state"], status=errors.FencedError.status)


class Http(test_client.Http):
    """Three candidates, of which the first is the master, and a node that was away."""

    def __init__(self, vouching: Reply, away: Reply) -> None:
        super().__init__(lambda host: away(host) if host == AWAY else vouching(host))

    def keys_asked_of(self, host: str) -> list[int]:
        """Return which keys a candidate was asked to sign with: how many renewals ago it had each."""
        requests = [body for address, path, body in self.requests if (address, path) == (host, "/vouch")]
        return [msgspec.json.decode(body, type=calls.Vouch).earlier for body in requests]

    @property
    def vouchers_brought(self) -> int:
        return sum(request[:2] == (AWAY, "/masters_store") for request in self.requests)


async def introduced(http: Http) -> bool:
    """Return whether an introduction of the master to the node that was away has succeeded."""
    nodes = [*build.FIRST, *build.put(msgspec.structs.replace(build.node(3), master_candidate=False))]
    state = states.Snapshot().apply(nodes, serial=1)
    caller = client.Client(test_client.Network(http), None)
    return await introduction.Introduction(caller, lambda: state).introduce(state.target(state.nodes["n3"]))


async def test_a_node_gets_the_word_of_one_candidate_after_another_until_it_believes() -> None:
    """Each time it gets all words so far: it needs those of a majority of the candidates that it knows."""
    answers = iter([DISBELIEF, agreement])
    http = Http(voucher, lambda host: next(answers)(host))
    assert await introduced(http)
    assert [http.keys_asked_of(candidate) for candidate in CANDIDATES] == [[0], [0], []]
    bodies = [body for address, path, body in http.requests if (address, path) == (AWAY, "/masters_store")]
    assert [len(msgspec.json.decode(body, type=calls.MastersStore).vouchers) for body in bodies] == [1, 2]


async def test_a_node_that_does_not_believe_is_offered_each_key_of_each_candidate_once() -> None:
    http = Http(voucher, DISBELIEF)
    assert not await introduced(http)
    assert [http.keys_asked_of(candidate) for candidate in CANDIDATES] == [ALL_KEYS] * 3
    assert http.vouchers_brought == 3 * len(ALL_KEYS)


@pytest.mark.parametrize(
    "answer",
    [
        silence,
        DISBELIEF,
        fault("OpPrereqError", ["it has no key from before 0 renewals", "wrong_state"]),
        fault("LuxiError", ["no candidate"], status=errors.UnknownCallerError.status),
        fault("LuxiError", [], status=errors.UnknownCallerError.status),
        fault("LuxiError", [], status=errors.FencedError.status),
        fault("", [None]),
        fault("LuxiError", "text"),
        lambda host: test_client.ok(None),
        lambda host: test_client.ok({"epoch": -1, "certificate": None}),
        lambda host: test_client.ok({"epoch": 1, "certificate": "x" * (1 << 15), "signature": "00"}),
        lambda host: http_interface.Response(200, b"\xff" * 99),
        lambda host: http_interface.Response(500, b""),
    ],
    ids=[
        "silent", "unbelieving", "no key", "no candidate", "no reason", "no reason to fence", "nameless", "wrong type",
        "null", "half a voucher", "long", "bytes", "empty",
    ],
)  # fmt: skip
async def test_a_candidate_without_a_voucher_is_asked_once_and_the_node_is_not_called(answer: Reply) -> None:
    http = Http(answer, agreement)
    assert not await introduced(http)
    assert [http.keys_asked_of(candidate) for candidate in CANDIDATES] == [[0], [0], [0]]
    assert http.vouchers_brought == 0


@pytest.mark.parametrize("answer", [silence, FENCED], ids=["silent", "knows a later epoch"])
async def test_a_node_that_no_other_word_can_convince_is_called_once(answer: Reply) -> None:
    http = Http(voucher, answer)
    assert not await introduced(http)
    assert [http.keys_asked_of(candidate) for candidate in CANDIDATES] == [[0], [], []]
    assert http.vouchers_brought == 1


async def test_a_candidate_is_asked_after_a_silent_one() -> None:
    http = Http(lambda host: silence(host) if host == CANDIDATES[0] else voucher(host), agreement)
    assert await introduced(http)
    assert [http.keys_asked_of(candidate) for candidate in CANDIDATES] == [[0], [0], []]


@pytest.fixture
def lab() -> Iterator[cluster.SimulatedCluster]:
    """A cluster whose third node became a candidate, and the master, while the fourth was away.

    That one knows the first two: it needs the words of both.
    """

    async def build_it() -> None:
        await simulated.build(candidate_pool_size=2)
        simulated.kill("node4")
        await simulated.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": 3})
        await simulated.world.clock.sleep(20)
        await simulated.failover("node3")

    with cluster.SimulatedCluster(1, nodes=4) as simulated:
        simulated.run(build_it())
        yield simulated


def known_keys(lab: cluster.SimulatedCluster) -> list[str]:
    return lab.world.machine("node4").disk.read(KEYS).decode().split()


@pytest.mark.parametrize(
    "lie",
    [
        reports(signature=""),
        reports(signature="00" * 256),
        reports(signature="no hex"),
        reports(epoch=1 << 40),
        reports(epoch=-1),
        reports(certificate=""),
        reports(certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        says(b"[true,null]"),
        says(b"[true,"),
        says(b'[false,["LuxiError",[]]]', status=403),
        never_ends(),
    ],
    ids=[
        "no signature", "zeros", "no hex", "later epoch", "negative epoch", "no certificate", "broken certificate",
        "null", "half", "refusal", "endless",
    ],
)  # fmt: skip
def test_a_candidate_that_answers_anything_moves_no_node_and_an_honest_candidate_does(
    lab: cluster.SimulatedCluster, lie: Answer
) -> None:
    async def scenario() -> None:
        before = known_keys(lab)
        broken_nodes.lie(lab, "node2", {"vouch": lie})
        await lab.start_node("node4")
        await lab.world.clock.sleep(120)
        assert known_keys(lab) == before
        await lab.done(broken_nodes.tag("the-master-works"))
        lab.kill("node2")
        await lab.restart("node2")
        await lab.world.clock.sleep(120)
        assert len(known_keys(lab)) == 3

    lab.run(scenario())
