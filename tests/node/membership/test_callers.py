"""Whose epoch a node believes, and whose list of the master candidates: what their signatures prove."""

import dataclasses

import pytest

from gantry import errors, security
from gantry.lib_files import member as member_file
from gantry.lib_files import ssconf as ssconf_file
from gantry.node.membership import callers, enrollment, fence, ssconf
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime

NOW = 1.8e9
AUTHORITY = security.make_authority("lab", NOW)
OTHER_LIST = ("u9=key",)


@dataclasses.dataclass(frozen=True)
class Machine:
    """A node with a certificate of the authority."""

    uuid: str
    pair: security.Pair

    @classmethod
    def make(cls, uuid: str) -> "Machine":
        key, request = security.make_request(uuid)
        issued = security.issue(AUTHORITY, request, uuid=uuid, name=uuid, address="192.0.2.1", now=NOW)
        return cls(uuid, security.Pair(issued, key))

    @property
    def line(self) -> str:
        return f"{self.uuid}={security.key_of(security.der_of(self.pair.certificate))}"

    def grant(self, epoch: int, uuid: str) -> calls.Grant:
        signature = security.sign(self.pair.key, calls.statement_of_epoch(epoch, uuid))
        return calls.Grant(certificate=self.pair.certificate.decode(), signature=signature)

    def master_certificate(self) -> bytes:
        return security.der_of(security.issue_master(AUTHORITY, NOW, key=self.pair.key).certificate)


FIRST, SECOND, THIRD, STRANGER = (Machine.make(f"u{number}") for number in (1, 2, 3, 4))
CANDIDATES = (FIRST, SECOND, THIRD)


class ObedientNode:
    """A node that knows three candidates, and obeys the first in epoch 4; ``own`` is its certificate and key."""

    def __init__(self, folders: paths.Paths, own: Machine) -> None:
        runtime = RealRuntime("node7")
        self.files = ssconf.Files(runtime.disk, folders)
        self.barrier = fence.Fence(runtime, folders, files=self.files)
        identity = Identity(own)
        self.callers = callers.Callers(self.files, identity, self.barrier)

    async def begin(self) -> None:
        await self.files.write({ssconf_file.MASTERS: "\n".join(sorted(machine.line for machine in CANDIDATES))})
        self.barrier.certify(4, "u1")
        await self.barrier.admit(4, "u1")


class Identity(enrollment.Enrolment):
    """A node that has joined."""

    def __init__(self, own: Machine) -> None:
        self._own = own

    def member(self) -> member_file.Member:
        return member_file.Member(cluster="lab", node="node7", uuid=self._own.uuid, address="192.0.2.7")

    def authority(self) -> bytes:
        return AUTHORITY.certificates

    def pair(self, *, earlier: int = 0) -> security.Pair:
        return self._own.pair


@pytest.fixture
async def node(folders: paths.Paths) -> ObedientNode:
    regular = ObedientNode(folders, Machine.make("u7"))
    await regular.begin()
    return regular


def proof(*grants: calls.Grant, epoch: int = 5) -> calls.ProveEpoch:
    return calls.ProveEpoch(epoch=epoch, grants=grants)


async def test_the_signatures_of_a_majority_prove_an_epoch(node: ObedientNode) -> None:
    await node.callers.prove(proof(FIRST.grant(5, "u2"), SECOND.grant(5, "u2")), "u2")
    assert node.barrier.is_certified(5, "u2")
    assert not node.barrier.is_certified(5, "u3")


@pytest.mark.parametrize(
    "second",
    [
        SECOND.grant(6, "u2"),
        SECOND.grant(5, "u3"),
        FIRST.grant(5, "u2"),
        STRANGER.grant(5, "u2"),
        calls.Grant(certificate=SECOND.pair.certificate.decode(), signature=FIRST.grant(5, "u2").signature),
        calls.Grant(certificate=SECOND.pair.certificate.decode(), signature="no hex"),
        calls.Grant(certificate="", signature=""),
    ],
    ids=["another epoch", "another master", "the same candidate", "a stranger", "another key", "no hex", "nothing"],
)
async def test_nothing_else_proves_an_epoch(node: ObedientNode, second: calls.Grant) -> None:
    with pytest.raises(errors.UnprovenError):  # the proof of another node
        await node.callers.prove(proof(FIRST.grant(5, "u2"), SECOND.grant(5, "u2")), "u3")
    for grants in ((FIRST.grant(5, "u2"),), (FIRST.grant(5, "u2"), second), ()):
        with pytest.raises(errors.UnprovenError, match=r"[01] of the 3 master candidates that this node knows have"):
            await node.callers.prove(proof(*grants), "u2")
    assert not node.barrier.is_certified(5, "u2")


async def test_the_signature_of_a_certificate_that_was_replaced_does_not_count(node: ObedientNode) -> None:
    serial = security.serial_of(security.der_of(SECOND.pair.certificate))
    await node.files.write({callers.REVOKED: serial})
    with pytest.raises(errors.UnprovenError):
        await node.callers.prove(proof(FIRST.grant(5, "u2"), SECOND.grant(5, "u2")), "u2")
    await node.callers.prove(proof(FIRST.grant(5, "u2"), THIRD.grant(5, "u2")), "u2")


async def test_a_candidate_vouches_only_for_its_own_list_and_the_master_of_a_proven_epoch(folders: paths.Paths) -> None:
    candidate = ObedientNode(folders, SECOND)
    await candidate.begin()
    own_list = tuple(machine.line for machine in CANDIDATES)
    for caller in ("", "u2", "u3"):
        with pytest.raises(errors.WrongStateError, match="vouches only for a master whose epoch"):
            await candidate.callers.vouch(calls.Vouch(uuid="u7", masters=own_list), caller)
    for masters in (own_list[:1], (*own_list, *OTHER_LIST), ()):
        with pytest.raises(errors.WrongStateError, match="not the one that this node has from the master"):
            await candidate.callers.vouch(calls.Vouch(uuid="u7", masters=masters), "u1")
    assert (await candidate.callers.vouch(calls.Vouch(uuid="u7", masters=own_list), "u1")).epoch == 4
    await candidate.barrier.admit(5, "u1")  # without a proof
    with pytest.raises(errors.WrongStateError, match="vouches only for a master whose epoch"):
        await candidate.callers.vouch(calls.Vouch(uuid="u7", masters=own_list), "u1")


async def vouchers(
    folders: paths.Paths, *signers: Machine, epoch: int, masters: tuple[str, ...], node: str = "u7"
) -> calls.MastersStore:
    """Return what candidates sign for the node, in its place, with their master in an epoch."""
    words = []
    for signer in signers:
        where = dataclasses.replace(folders, lib=f"{folders.lib}/{signer.uuid}")
        candidate = ObedientNode(where, signer)
        await candidate.files.write({ssconf_file.MASTERS: "\n".join(masters)})
        candidate.barrier.certify(epoch, "u4")
        await candidate.barrier.admit(epoch, "u4")
        words.append(await candidate.callers.vouch(calls.Vouch(uuid=node, masters=masters), "u4"))
    return calls.MastersStore(masters=masters, voucher=words[-1], vouchers=tuple(words))


NEW_LIST = (STRANGER.line, SECOND.line)


async def test_a_node_learns_a_list_from_a_majority_of_those_that_it_knows(
    node: ObedientNode, folders: paths.Paths
) -> None:
    single = await vouchers(folders, SECOND, epoch=6, masters=NEW_LIST)
    with pytest.raises(errors.UnprovenError, match="1 of the 3 master candidates that this node knows have vouched"):
        await node.callers.learn(single, STRANGER.master_certificate())
    both = await vouchers(folders, SECOND, THIRD, epoch=6, masters=NEW_LIST)
    with pytest.raises(errors.ProtocolError, match="the caller is not among the master candidates that it names"):
        await node.callers.learn(both, THIRD.master_certificate())
    await node.callers.learn(both, STRANGER.master_certificate())
    assert node.callers.identify(STRANGER.master_certificate()) == "u4"
    with pytest.raises(errors.UnknownCallerError) as refused:
        node.callers.identify(FIRST.master_certificate())
    assert refused.value.obeyed == (4, "u1")


async def test_a_candidate_counts_its_own_word_unless_it_hears_from_another_master(
    folders: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two candidates that it knows, there is only one other."""
    candidate = ObedientNode(folders, FIRST)
    await candidate.begin()
    await candidate.files.write({ssconf_file.MASTERS: f"{FIRST.line}\n{SECOND.line}"})
    masters = (FIRST.line, SECOND.line, STRANGER.line)
    passed = await vouchers(folders, SECOND, epoch=4, masters=masters, node="u1")
    words = await vouchers(folders, SECOND, epoch=5, masters=masters, node="u1")
    with pytest.raises(errors.UnprovenError, match="1 of the 2 master candidates that this node knows have vouched"):
        await candidate.callers.learn(words, STRANGER.master_certificate())
    monkeypatch.setattr(calls, "LEASE_SECONDS", 0.0)
    with pytest.raises(errors.UnprovenError, match="1 of the 2 master candidates that this node knows have vouched"):
        await candidate.callers.learn(passed, STRANGER.master_certificate())
    await candidate.callers.learn(words, STRANGER.master_certificate())
    assert candidate.callers.identify(STRANGER.master_certificate()) == "u4"


async def test_the_own_word_of_a_node_that_is_no_candidate_does_not_count(
    node: ObedientNode, folders: paths.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LEASE_SECONDS", 0.0)
    words = await vouchers(folders, SECOND, epoch=5, masters=NEW_LIST)
    with pytest.raises(errors.UnprovenError, match="1 of the 3 master candidates that this node knows have vouched"):
        await node.callers.learn(words, STRANGER.master_certificate())


@pytest.mark.parametrize("epoch", [3, 4])
async def test_a_node_learns_no_list_of_an_epoch_that_has_passed_or_is_anothers(
    node: ObedientNode, folders: paths.Paths, epoch: int
) -> None:
    words = await vouchers(folders, SECOND, THIRD, epoch=epoch, masters=NEW_LIST)
    with pytest.raises(errors.FencedError, match=f"the voucher is of epoch {epoch}"):
        await node.callers.learn(words, STRANGER.master_certificate())


async def test_the_master_that_a_node_obeys_may_have_a_new_key(node: ObedientNode, folders: paths.Paths) -> None:
    renewed = dataclasses.replace(STRANGER, uuid="u1")
    words = await vouchers(folders, SECOND, THIRD, epoch=4, masters=(renewed.line, SECOND.line))
    await node.callers.learn(words, renewed.master_certificate())
    assert node.callers.identify(renewed.master_certificate()) == "u1"
