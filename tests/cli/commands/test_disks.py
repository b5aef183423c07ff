"""Disk options on the command line and the opcodes that they become."""

import pytest
from tests.cli.conftest import Gnt, Master

from gantry.cli import errors
from gantry.cli.commands import disks
from gantry.cli.grammar import devices


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add:size=1g", ["add", -1, {"size": 1024}]),
        ("add:size=auto,access=r", ["add", -1, {"size": "auto", "mode": "r"}]),
        ("2:add,size=8,vg=fast", ["add", 2, {"size": 8, "vg": "fast"}]),
        ("remove", ["remove", -1, {}]),
        ("data:remove", ["remove", "data", {}]),
        ("2:access=r", ["modify", 2, {"mode": "r"}]),
        ("detach", ["detach", -1, {}]),
        ("1:detach", ["detach", 1, {}]),
        ("attach:uuid=d1", ["attach", -1, {"uuid": "d1"}]),
        ("0:attach,name=data", ["attach", 0, {"name": "data"}]),
        ("0:modify,mode=rw,-name", ["modify", 0, {"mode": "rw", "name": "none"}]),
    ],
)
def test_every_form_is_understood(text: str, change: list[object]) -> None:
    assert disks.change(text) == change


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0:modify,szie=3", "unknown key szie"),
        ("0:modify", "no value to modify"),
        ("remove:size=3", "remove does not take values"),
        ("0:detach,mode=ro", "detach does not take values"),
        ("add:uuid=d1", "unknown key uuid"),
        ("0", "the value names neither a disk nor an action"),
        ("add:size=none", "is not a size"),
    ],
)
def test_what_is_not_understood_is_shown(text: str, complaint: str) -> None:
    with pytest.raises(errors.MalformedError, match=complaint):
        disks.change(text)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("-t plain", {"disk_template": "plain"}),
        (
            "-t drbd -n node2 --no-wait-for-sync",
            {"disk_template": "drbd", "remote_node": "node2", "wait_for_sync": False},
        ),
        ("-t drbd -I gantry", {"disk_template": "drbd", "iallocator": "gantry"}),
        (
            "-t ext -e provider=san,tier=gold",
            {"disk_template": "ext", "ext_params": {"provider": "san", "tier": "gold"}},
        ),
    ],
)
def test_disks_that_become_others(gnt: Gnt, master: Master, options: str, fields: dict[str, object]) -> None:
    ran = gnt(f"gnt-instance modify --submit {options} web1")
    assert ran.code == 0, ran.err
    assert {key: master.ops[-1][key] for key in fields} == fields


def test_a_node_for_disks_that_stay_what_they_are_is_refused(gnt: Gnt, master: Master) -> None:
    ran = gnt("gnt-instance modify -n node2 -B vcpus=2 web1")
    assert "-n, -I and -e need -t: they only apply to a change of the disk template" in ran.err
    assert master.ops == []


def test_what_follows_a_provider_is_the_providers_own() -> None:
    (disk,) = devices.DISKS.devices(["0:size=1g,provider=san,access=userspace,tier=gold,spindles=2"])
    assert disk == {
        "size": 1024,
        "provider": "san",
        "access": "userspace",
        "spindles": 2,
        "params": {"tier": "gold"},
    }


def test_a_misspelt_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(errors.MalformedError, match=r"did you mean size\?"):
        devices.DISKS.devices(["0:szie=1g"])


@pytest.mark.parametrize(
    ("text", "lost_disk"),
    [("1", 1), ("1:", 1), ("0:size=20g", [0, {"size": "20g"}]), ("2:size=8,access=r", [2, {"size": "8", "mode": "r"}])],
)
def test_a_lost_disk_is_named_and_may_get_another_size(text: str, lost_disk: object) -> None:
    assert disks.lost_disk(text) == lost_disk
