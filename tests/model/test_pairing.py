import itertools
from typing import get_args

import pytest

from gantry import errors
from gantry.model import pairing

P1, S1, P2 = "n1", "n2", "n3"
KEEPS = (None, *get_args(pairing.Keep))


def decide(target: str = P2, failed: tuple[str, ...] = (), keep: pairing.Keep | None = None) -> pairing.Pairing | str:
    try:
        return pairing.decide(primary=P1, secondary=S1, target=target, failed=failed, keep=keep)
    except errors.WrongStateError as error:
        return error.message


def test_a_failed_primary_node_makes_its_secondary_the_one_that_stays() -> None:
    assert decide(failed=(P1,)) == pairing.Pairing(primary=P2, secondary=S1, gone=P1)


def test_a_failed_secondary_node_makes_the_primary_the_one_that_stays() -> None:
    assert decide(failed=(S1,)) == pairing.Pairing(primary=P2, secondary=P1, gone=S1, migratable=True)


def test_when_both_work_the_user_chooses_which_one_stays() -> None:
    kept = {keep: decide(keep=keep) for keep in KEEPS}
    assert kept[None] == kept["secondary"] == pairing.Pairing(primary=P2, secondary=S1, gone=P1)
    assert kept["primary"] == pairing.Pairing(primary=P2, secondary=P1, gone=S1, migratable=True)


def test_only_where_the_primary_node_stays_could_the_instance_be_migrated() -> None:
    for failed, keep in itertools.product([(), (P1,), (S1,)], KEEPS):
        decision = decide(failed=failed, keep=keep)
        assert isinstance(decision, str) or decision.migratable == (decision.secondary == P1)


def test_the_secondary_node_as_target_swaps_both_and_copies_nothing() -> None:
    assert decide(S1) == pairing.Pairing(primary=S1, secondary=P1, migratable=True)
    assert decide(S1, failed=(P1,)) == pairing.Pairing(primary=S1, secondary=P1)


@pytest.mark.parametrize(
    ("target", "failed", "keep", "why"),
    [
        (P1, (), None, "already the primary node"),
        (P2, (P2,), None, "does not work"),
        (S1, (S1,), None, "does not work"),
        (P2, (P1, S1), None, "neither"),
        (P2, (P1,), "primary", "primary node does not work"),
        (P2, (S1,), "secondary", "secondary node does not work"),
    ],
)
def test_without_a_good_copy_to_keep_it_is_refused(
    target: str, failed: tuple[str, ...], keep: pairing.Keep | None, why: str
) -> None:
    decision = decide(target, failed, keep)
    assert isinstance(decision, str)
    assert why in decision


def test_a_copy_is_good_when_it_is_up_to_date_and_one_that_fell_behind_only_for_the_lenient() -> None:
    good = {state for state in ("UpToDate", "Outdated", "Consistent", "Inconsistent", "Diskless", None)
            if not pairing.problem(state)}  # fmt: skip
    lenient = {state for state in ("UpToDate", "Outdated", "Consistent", "Inconsistent", "Diskless", None)
               if not pairing.problem(state, lenient=True)}  # fmt: skip
    assert good == {"UpToDate"}
    assert lenient == {"UpToDate", "Outdated", "Consistent"}


def test_a_new_copy_may_be_promoted_from_the_moment_that_it_receives() -> None:
    assert pairing.may_be_promoted(connection="SyncTarget", local="Inconsistent", peer="UpToDate")
    assert pairing.may_be_promoted(connection="Connected", local="UpToDate", peer="UpToDate")
    for connection, local, peer in (
        ("WFConnection", "Inconsistent", "DUnknown"),
        ("StandAlone", "UpToDate", "UpToDate"),
        ("Connected", "Inconsistent", "UpToDate"),
        ("SyncTarget", "Inconsistent", "Inconsistent"),
        ("SyncTarget", "Inconsistent", "Outdated"),
    ):
        assert not pairing.may_be_promoted(connection=connection, local=local, peer=peer)
