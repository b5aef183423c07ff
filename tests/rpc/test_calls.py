"""Properties of all declared calls."""

import re
from pathlib import Path

from gantry.rpc import calls

READS = re.compile(
    r".*_(clock|console|diagnose|endings|fetch|find|info|list|machine|name|path|place|status|validate|verify)"
    r"|version|vouch|prove_invitation"
)

UNFENCED = {
    # before there is a master, or an epoch
    "candidate_status",
    "copy_fetch",
    "enrol",
    "join",
    "journal_fetch",
    "lease_status",
    "master_name",
    "master_promise",
    "masters_store",
    "node_clock",
    "prove_invitation",
    "stop_master",
    "use_invitation",
    "version",
    # the run of their caller is what counts
    "extend_permits",
    # the epoch of their records is what counts
    "checkpoint_store",
    "journal_append",
    "lease_renew",
}


def test_every_call_is_for_the_newest_master_only_but_those_that_make_one() -> None:
    assert {call.procedure() for call in calls.ALL if not call.FENCED} == UNFENCED


def test_the_page_about_security_names_each_call_outside_the_fence() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/security.md").read_text()
    assert [call.__name__ for call in calls.ALL if not call.FENCED and f"`{call.__name__}`" not in page] == []


def test_a_master_needs_its_lease_for_every_call_that_changes_something() -> None:
    assert {name for call in calls.ALL if READS.fullmatch(name := call.procedure())} == {
        call.procedure() for call in calls.ALL if call.READS
    }
