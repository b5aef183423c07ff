"""The vote for the master's role, over tables of answers."""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from gantry.mastership import vote
from gantry.rpc import calls

ME = "node0"
OWN = calls.CandidateState(serial=50, digest="d50", epoch=4, job=9, master=ME)
EQUAL = msgspec.structs.replace(OWN)
OLDER = msgspec.structs.replace(OWN, serial=49, digest="d49", job=8)
NONE = calls.CandidateState(serial=0, digest="", epoch=0, job=0, master=ME)
NEWER = msgspec.structs.replace(OWN, serial=51, digest="d51")
NEWER_EPOCH = msgspec.structs.replace(OWN, serial=20, digest="e20", epoch=5)
OLD_EPOCH_LONGER = msgspec.structs.replace(OWN, serial=99, digest="c99", epoch=3, job=30)
NEWER_JOB = msgspec.structs.replace(OWN, serial=50, digest="d50", job=10)
LATER_MASTER = msgspec.structs.replace(NONE, heard=5)
OTHER = msgspec.structs.replace(OWN, digest="x50")

CONFIRMED, REFUSED, UNDECIDED = vote.Outcome


def answer(number: int, copy: calls.CandidateState | None = EQUAL, master: str | None = ME) -> vote.Answer:
    return vote.Answer(f"node{number}", master=master, copy=copy, why="" if copy else "it is down")


def silent(number: int, *, offline: bool = False) -> vote.Answer:
    return vote.Answer(f"node{number}", why="it is down", offline=offline)


def decide(
    answers: Sequence[vote.Answer], *, taking_over: bool = False, candidates: Sequence[str] | None = None
) -> vote.Outcome:
    names = candidates if candidates is not None else [ME, *(reply.node for reply in answers)]
    return vote.decide(vote.Claim(ME, OWN, names, taking_over=taking_over), answers).outcome


def test_a_single_node_confirms_itself() -> None:
    assert decide([]) is CONFIRMED
    assert decide([], taking_over=True) is CONFIRMED


@pytest.mark.parametrize(("given_up", "outcome"), [((4, 50), CONFIRMED), ((4, 51), REFUSED), ((5, 1), REFUSED)])
def test_a_node_that_gave_up_a_newer_copy_refuses(given_up: tuple[int, int], outcome: vote.Outcome) -> None:
    gone = answer(2, msgspec.structs.replace(NONE, given_up=given_up))
    assert decide([answer(1), gone]) is outcome
    assert decide([answer(1), gone], taking_over=True) is outcome


@pytest.mark.promise("cluster-25")
@pytest.mark.parametrize("other_nodes", range(1, 7))
def test_half_plus_one_must_answer_and_the_rest_may_be_silent(other_nodes: int) -> None:
    total = other_nodes + 1
    for answering in range(other_nodes + 1):
        answers = [answer(n) if n <= answering else silent(n) for n in range(1, other_nodes + 1)]
        enough = 2 * (answering + 1) > total
        assert decide(answers) is (CONFIRMED if enough else UNDECIDED), (other_nodes, answering)
        assert decide(answers, taking_over=True) is (CONFIRMED if enough else UNDECIDED), (other_nodes, answering)


@pytest.mark.parametrize("taking_over", [False, True])
def test_nodes_that_disown_the_asker_are_votes_against_it(taking_over: bool) -> None:
    disowning = [vote.Answer(f"node{n}", disowns=True) for n in (1, 2, 3)]
    assert decide([*disowning, answer(4)], taking_over=taking_over) is REFUSED
    assert decide([*disowning[:2], silent(3), answer(4)], taking_over=taking_over) is UNDECIDED
    assert decide([*disowning[:2], answer(3), answer(4)], taking_over=taking_over) is CONFIRMED


@pytest.mark.parametrize("taking_over", [False, True])
@pytest.mark.parametrize(
    ("candidates", "own_epoch", "outcome"),
    [
        ([ME, "node1", "node2"], OWN.epoch + 1, REFUSED),
        ([ME, "node1", "node2"], OWN.epoch, CONFIRMED),
        ([ME, "node1"], OWN.epoch + 1, CONFIRMED),
    ],
)
def test_a_candidate_that_became_the_master_and_has_given_up_the_asker_refuses_alone(
    candidates: Sequence[str], own_epoch: int, outcome: vote.Outcome, taking_over: bool
) -> None:
    claim = vote.Claim(ME, OWN, candidates, taking_over=taking_over, by_majority=True)
    assert vote.decide(claim, [answer(1), vote.Answer("node2", disowns=True, own_epoch=own_epoch)]).outcome is outcome


@pytest.mark.promise("cluster-28")
def test_a_quorum_takes_us_for_the_master_at_a_start_whatever_the_mix_of_answers() -> None:
    kinds: list[str | None] = [ME, "node1", "", None]
    for names in itertools.product(kinds, repeat=4):
        answers = [answer(n, master=name) for n, name in enumerate(names, 1)]
        yes, missing = 1 + names.count(ME), names.count(None)
        outcome = CONFIRMED if yes >= 3 else UNDECIDED if yes + missing >= 3 else REFUSED
        assert decide(answers) is outcome, names
        assert decide(answers, taking_over=True) is CONFIRMED


@pytest.mark.promise("cluster-27")
@pytest.mark.parametrize("newer", [NEWER, NEWER_EPOCH, NEWER_JOB, OTHER, LATER_MASTER])
@pytest.mark.parametrize("taking_over", [False, True])
def test_not_a_single_node_may_hold_something_newer(newer: calls.CandidateState, taking_over: bool) -> None:
    for position in range(1, 6):
        answers = [answer(n, newer if n == position else EQUAL) for n in range(1, 6)]
        assert decide(answers, taking_over=taking_over) is REFUSED
        # whatever its flags
        assert decide(answers, taking_over=taking_over, candidates=[ME]) is REFUSED


@pytest.mark.parametrize(
    "contradiction",
    [
        answer(3, NEWER),
        answer(3, NEWER_EPOCH),
        answer(3, NEWER_JOB),
        answer(3, OTHER),
        answer(3, msgspec.structs.replace(NONE, given_up=(4, 51))),
        answer(3, None, "node3"),
    ],
)
def test_under_a_majority_a_node_that_contradicts_has_one_vote(contradiction: vote.Answer) -> None:
    claim = vote.Claim(ME, OWN, [ME, "node1", "node2", "node3"], taking_over=True, by_majority=True)
    assert vote.decide(claim, [answer(1), answer(2), contradiction]).outcome is CONFIRMED
    verdict = vote.decide(claim, [answer(1), silent(2), contradiction])
    assert verdict.outcome is UNDECIDED
    assert verdict.reasons[0].startswith("node node3 ")
    second = replace(contradiction, node="node2", master=ME if contradiction.copy else "node2")
    assert vote.decide(claim, [answer(1), contradiction, second]).outcome is REFUSED


def test_what_a_majority_acknowledged_is_in_every_copy_that_is_confirmed() -> None:
    """Five candidates, some lost what they acknowledged and say so, some are silent, some never had it."""
    lost = msgspec.structs.replace(OLDER, given_up=(4, 51))
    kinds = {"holds": NEWER, "lost": lost, "lacks": OLDER, "silent": None}
    names = [ME, *(f"node{number}" for number in range(1, 5))]
    claim = vote.Claim(ME, OWN, names, taking_over=True, by_majority=True)
    for states_of_others in itertools.product(kinds, repeat=4):
        answers = [answer(number, kinds[kind]) for number, kind in enumerate(states_of_others, 1)]
        holders = states_of_others.count("holds") + states_of_others.count("lost")
        lacking = 1 + states_of_others.count("lacks")
        silent_nodes = states_of_others.count("silent")
        if holders + silent_nodes >= 3:
            assert vote.decide(claim, answers).outcome is not CONFIRMED, states_of_others
        assert (vote.decide(claim, answers).outcome is CONFIRMED) is (lacking >= 3)


@pytest.mark.promise("cluster-26")
def test_a_quorum_agrees_on_serial_and_job_over_all_mixes_of_copies() -> None:
    kinds = [EQUAL, OLDER, NONE, OLD_EPOCH_LONGER, None]
    for copies in itertools.product(kinds, repeat=4):
        answers = [answer(n, copy) for n, copy in enumerate(copies, 1)]
        copy_count = 1 + sum(copy is not None for copy in copies)
        assert decide(answers, taking_over=True) is (CONFIRMED if copy_count >= 3 else UNDECIDED), copies


def test_a_majority_of_the_candidates_must_speak_not_only_of_the_nodes() -> None:
    nodes = [answer(n, NONE) for n in range(1, 8)]
    candidates = [ME, "node1", "node2", "node3", "node4"]
    assert decide(nodes, candidates=candidates) is CONFIRMED
    deaf = [silent(n) if node.node in candidates[2:] else node for n, node in enumerate(nodes, 1)]
    assert decide(deaf, candidates=candidates) is UNDECIDED


@pytest.mark.promise("cluster-93")
def test_two_nodes_with_one_down_are_never_decided() -> None:
    for taking_over in (False, True):
        assert decide([silent(1, offline=True)], taking_over=taking_over, candidates=[ME]) is UNDECIDED
        assert decide([answer(1)], taking_over=taking_over, candidates=[ME]) is CONFIRMED


def test_a_verdict_says_what_is_missing_and_the_answers_who_said_what() -> None:
    answers = [answer(1, NEWER, "node1"), silent(2)]
    verdict = vote.decide(vote.Claim(ME, OWN), answers)
    assert verdict.reasons == (
        "node node1 holds a newer copy, epoch 4 serial 51 job 9, here it is epoch 4 serial 50 job 9",
    )
    assert vote.described(answers) == (
        "node1 takes node1 for the master, holds epoch 4 serial 51 job 9; node2 does not answer: it is down"
    )
    verdict = vote.decide(vote.Claim(ME, OWN), [answer(1, master="node1"), answer(2, master="node1")])
    assert verdict.reasons == ("1 of 3 nodes take node0 for the master, 2 are needed",)


def test_the_epoch_to_be_above_is_the_highest_that_anybody_has_seen() -> None:
    assert vote.highest_epoch([answer(1, OLDER), answer(2, NEWER_EPOCH), silent(3)]) == 5
    assert vote.highest_epoch([answer(1, msgspec.structs.replace(OLDER, heard=7)), answer(2)]) == 7
    assert vote.highest_epoch([]) == 0


@pytest.mark.parametrize("field", ["epoch", "heard", "given_up", "acknowledged"])
def test_a_broken_node_that_reports_an_impossible_epoch_decides_nothing(field: str) -> None:
    value = (10**9, 1) if field in ("given_up", "acknowledged") else 10**9
    broken = answer(1, msgspec.structs.replace(EQUAL, **{field: value}))
    checked = vote.without_impossible(OWN.epoch, [broken, answer(2)])
    assert checked[1] == answer(2)
    assert checked[0].copy is None
    assert f"it reports epoch {10**9}, and no other node knows an epoch above {OWN.epoch}" in vote.described(checked)
    assert vote.decide(vote.Claim(ME, OWN), checked).outcome is CONFIRMED


def test_an_epoch_that_a_series_of_masters_can_have_reached_counts() -> None:
    newer = answer(1, msgspec.structs.replace(EQUAL, heard=OWN.epoch + vote.MOST_ABOVE))
    assert vote.without_impossible(OWN.epoch, [newer, answer(2)]) == [newer, answer(2)]
    other = answer(2, msgspec.structs.replace(EQUAL, heard=10**9))
    newest = answer(3, msgspec.structs.replace(EQUAL, heard=10**9 + 1))
    assert vote.without_impossible(OWN.epoch, [other, newest]) == [other, newest]


@pytest.mark.parametrize(
    ("epochs", "outcome"),
    [((5, 0, 0), CONFIRMED), ((5, 6, 0), CONFIRMED), ((5, 5, 0), REFUSED), ((4, 4, 4), CONFIRMED)],
)
def test_two_nodes_that_have_heard_of_one_later_master_show_that_copies_were_lost(
    epochs: tuple[int, ...], outcome: vote.Outcome
) -> None:
    answers = [answer(n, msgspec.structs.replace(NONE, heard=epoch)) for n, epoch in enumerate(epochs, 1)]
    claim = vote.Claim(ME, OWN, [ME], by_majority=True)
    verdict = vote.decide(claim, answers)
    assert verdict.outcome is outcome
    assert ("node1, node2 have heard of a later master, of epoch 5" in str(verdict.reasons)) is (outcome is REFUSED)


def test_a_later_master_whose_records_a_copy_has_is_not_called_lost() -> None:
    newest = dataclasses.replace(answer(1, NEWER_EPOCH), proven=True)
    answers = [newest, *(answer(n, LATER_MASTER) for n in (2, 3))]
    verdict = vote.decide(vote.Claim(ME, OWN, [ME], by_majority=True), answers)
    assert verdict.outcome is REFUSED
    assert [reason[:30] for reason in verdict.reasons] == ["node node1 holds a newer copy,"]


HEARD_MORE = msgspec.structs.replace(NONE, acknowledged=(4, 53))


@pytest.mark.parametrize(
    ("acknowledged", "outcome"),
    [((50, 0, 0), CONFIRMED), ((51, 0, 0), CONFIRMED), ((51, 53, 0), REFUSED), ((49, 50, 50), CONFIRMED)],
)
def test_two_nodes_that_have_heard_of_more_acknowledged_records_show_that_copies_went_back(
    acknowledged: tuple[int, ...], outcome: vote.Outcome
) -> None:
    answers = [answer(n, msgspec.structs.replace(NONE, acknowledged=(4, s))) for n, s in enumerate(acknowledged, 1)]
    verdict = vote.decide(vote.Claim(ME, OWN, [ME], by_majority=True), answers)
    assert verdict.outcome is outcome
    missing = "records 51 to 53 of epoch 4 were acknowledged, as node1, node2 have heard"
    assert (missing in str(verdict.reasons)) is (outcome is REFUSED)


def test_one_node_that_has_heard_of_more_has_one_vote_under_a_majority_and_a_veto_without() -> None:
    witness, claim = answer(3, HEARD_MORE), vote.Claim(ME, OWN, [ME, "node1", "node2"], by_majority=True)
    assert vote.decide(claim, [answer(1), answer(2), witness]).outcome is CONFIRMED
    assert vote.decide(claim, [answer(1), silent(2), witness]).outcome is UNDECIDED
    assert vote.decide(replace(claim, by_majority=False), [answer(1), answer(2), witness]).outcome is REFUSED


def test_what_this_machine_has_heard_of_itself_refuses_until_a_copy_has_it() -> None:
    claim = vote.Claim(ME, OWN, [ME, "node1", "node2"], by_majority=True, acknowledged=(4, 53))
    assert vote.decide(claim, [answer(1), answer(2)]).outcome is REFUSED
    assert vote.decide(claim, [answer(1), silent(2)]).outcome is UNDECIDED
    having = msgspec.structs.replace(OWN, serial=53, digest="d53")
    assert "holds a newer copy" in str(vote.decide(claim, [answer(1, having), answer(2, having)]).reasons)
    assert vote.decide(replace(claim, copy=having), [answer(1, having), answer(2)]).outcome is CONFIRMED


def test_records_of_a_later_epoch_replace_what_was_heard_of_before() -> None:
    claim = vote.Claim(ME, NEWER_EPOCH, [ME], by_majority=True, acknowledged=(4, 53))
    assert vote.decide(claim, [answer(n, HEARD_MORE) for n in (1, 2, 3)]).outcome is CONFIRMED
