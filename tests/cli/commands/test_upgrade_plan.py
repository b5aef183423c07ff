import pytest

from gantry.cli import errors
from gantry.cli.commands import upgrade_plan

NODE = upgrade_plan.Node("n", "regular", False, "", "1.0", "1.0", False, False, "")


@pytest.mark.parametrize(
    ("version", "target", "near"),
    [
        ("0.2.0", "1.0", True),
        ("0.2.0", "0.3.7-1", True),
        ("0.2.0", "0.4.0", False),
        ("1.2", "1.0", False),
        ("2.0", "1.9", True),
        ("2.1", "1.9", False),
        ("1.0", "3.0", False),
        ("1:1.0", "1.1~rc1", True),
    ],
)
def test_releases_are_neighbours_if_they_are_at_most_one_apart(version: str, target: str, near: bool) -> None:
    assert upgrade_plan.are_neighbours(version, target) is near
    assert upgrade_plan.are_neighbours(target, version) is near


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (None, "waiting"),
        (NODE._replace(error="unreachable"), "waiting"),
        (NODE._replace(busy=True, installed=""), "waiting"),
        (NODE._replace(installed="1.1", unconfirmed=True), "waiting"),
        (NODE._replace(unconfirmed=True), "waiting"),
        (NODE._replace(installed="1.1", started="1.1", unconfirmed=True), "done"),
        (NODE, "failed"),
        (NODE._replace(unconfirmed=True, fault="no space"), "failed"),
    ],
)
def test_a_node_on_its_way_is_waiting_done_or_failed(node: upgrade_plan.Node | None, state: str) -> None:
    assert upgrade_plan.progress(node, "1.1")[0] is upgrade_plan.Progress(state)


def test_a_record_survives_its_file_and_a_damaged_one_is_named() -> None:
    record = upgrade_plan.Record("1.1", {"n": "1.0"}, True)
    assert upgrade_plan.record(record.text()) == record
    for damaged in ("", "[]", "{}", '{"target": "1.1", "former": 1}'):
        with pytest.raises(errors.CommandError, match="the record of the last upgrade cannot be read"):
            upgrade_plan.record(damaged)
