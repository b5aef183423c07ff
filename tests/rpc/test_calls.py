"""Properties of all declared calls."""

import re

from gantry.rpc import calls

READS = re.compile(
    r".*_(clock|console|diagnose|endings|fetch|find|info|list|name|path|place|status|validate|verify)|version"
)

UNFENCED = {
    # before there is a master, or an epoch
    "enrol",
    "join",
    "lease_renew",
    "master_promise",
    "stop_master",
    # the epoch of their records is what counts
    "checkpoint_store",
    "journal_append",
}


def test_what_changes_a_node_is_for_the_newest_master_only() -> None:
    free = {call.procedure() for call in calls.ALL if not call.FENCED}
    assert {name for name in free if not READS.fullmatch(name)} == UNFENCED


def test_who_was_master_may_still_look() -> None:
    fenced = {call.procedure() for call in calls.ALL if call.FENCED}
    assert {name for name in fenced if READS.fullmatch(name)} == set()
