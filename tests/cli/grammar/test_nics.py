"""Options that change NICs: the actions they become, and the errors for invalid options."""

from typing import Any

import pytest
from tests.cli.conftest import Gnt, Master

from gantry.cli import errors
from gantry.cli.grammar import nics
from gantry.model import opcodes


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("0:modify,ip1=192.0.2.10", ["modify", 0, {"ip": {"1": "192.0.2.10"}}]),
        ("1:modify,ip1=none", ["modify", 1, {"ip": {"1": "none"}}]),
        ("0:ip=pool", ["modify", 0, {"ip": {"0": "pool"}}]),
        (
            "-1:name=eth9,-ip1,ip0=2001:db8::1",
            ["modify", -1, {"name": "eth9", "ip": {"0": "2001:db8::1", "1": "none"}}],
        ),
        ("eth0:network=net1,modify", ["modify", "eth0", {"network": "net1"}]),
        ("0:modify,-network,mode=routed,link=9", ["modify", 0, {"network": "none", "mode": "routed", "link": "9"}]),
        ("0:link=br0,vlan=:6:7", ["modify", 0, {"link": "br0", "vlan": ":6:7"}]),
        ("add", ["add", -1, {}]),
        ("add:mac=auto", ["add", -1, {"mac": "auto"}]),
        ("add:port=p1", ["add", -1, {"port": "p1"}]),
        ("2:add,ip=pool,net1", ["add", 2, {"ip": ["pool"], "network": "net1"}]),
        ("remove", ["remove", -1, {}]),
        ("remove:", ["remove", -1, {}]),
        ("0:remove", ["remove", 0, {}]),
        ("5d5c3b1e-0000-4000-8000-000000000001:remove", ["remove", "5d5c3b1e-0000-4000-8000-000000000001", {}]),
    ],
)
def test_every_form_becomes_an_action_a_nic_and_values(text: str, change: object) -> None:
    assert nics.change(text) == change


@pytest.mark.promise("networks-64")
def test_numbered_addresses_of_a_new_nic_become_a_list() -> None:
    assert nics.change("-1:add,ip0=pool,ip1=192.0.2.4,ip2=some-pool-name,network=test") == [
        "add", -1, {"ip": ["pool", "192.0.2.4", "some-pool-name"], "network": "test"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "column", "complaint"),
    [
        ("", 0, "the value names neither a NIC nor an action"),
        ("ip=pool", 0, "the value names neither a NIC nor an action"),
        (":modify,ip=pool", 0, "the value names neither a NIC nor an action"),
        ("0", 0, "the value names neither a NIC nor an action"),
        ("modify:ip=pool,modify,add", 7, "add and modify exclude each other"),
        ("0:modify", 2, "no value to modify"),
        ("0:", 2, "no value to modify"),
        ("0:remove,ip=pool", 2, "remove does not take values"),
        ("0:modify,link=br0,colour=red", 18, "unknown key colour"),
        ("add:ntework=net1", 4, "did you mean network?"),
        ("0:link=br0,link=br1", 11, "sets link twice"),
        ("0:ip=", 2, "ip has no address"),
        ("0:ip=pool,ip0=pool", 10, "ip and ip0 are the same address"),
        ("0:name", 2, "name has no value"),
        ("add:ip1=pool", 4, "must start at 0 without gaps"),
        ("add:=x", 4, "is not of the form"),
    ],
)
def test_what_is_not_understood_shows_the_place_and_the_forms(text: str, column: int, complaint: str) -> None:
    with pytest.raises(errors.MalformedError) as caught:
        nics.change(text)
    message = caught.value.text()
    assert complaint in message
    assert f"\n    {text}\n    {' ' * column}^\n" in message
    assert "IDENT:modify,KEY=VALUE,..." in message


def modified(gnt: Gnt, master: Master, options: str) -> dict[str, Any]:
    ran = gnt(f"gnt-instance modify --submit {options} web1")
    assert ran.code == 0, ran.err
    return {key: value for key, value in master.ops[-1].items() if value not in ({}, []) and key != "reason"}


def test_a_modification_becomes_one_opcode(gnt: Gnt, master: Master) -> None:
    op = modified(
        gnt,
        master,
        "--net -1:add,ip=pool,network=net1 --net 0:ip1=none -B memory=1g -H accel=tcg,-acpi -O -motd --force "
        "--no-hotplug --no-conflicts-check",
    )
    assert op == {
        "OP_ID": "OP_INSTANCE_SET_PARAMS",
        "instance_name": "web1",
        "nics": [["add", -1, {"ip": ["pool"], "network": "net1"}], ["modify", 0, {"ip": {"1": "none"}}]],
        "beparams": {"memory": 1024},
        "hvparams": {"accel": "tcg", "acpi": "default"},
        "osparams": {"motd": "default"},
        "force": True,
        "hotplug": False,
        "conflicts_check": False,
    }


@pytest.mark.parametrize("option", ["", "--hotplug", "--hotplug-if-possible"])
def test_hotplug_is_the_default_however_it_is_asked_for(gnt: Gnt, master: Master, option: str) -> None:
    op = opcodes.decode(modified(gnt, master, f"--net remove {option}"))
    assert isinstance(op, opcodes.InstanceSetParams)
    assert op.hotplug


def test_what_was_modified_is_listed(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_SET_PARAMS"] = [["nic.ip/0", ["192.0.2.1", "::1"]], ["nic.ip/1", []], ["be/vcpus", 2]]
    ran = gnt("gnt-instance modify --net 0:ip=192.0.2.1 web1")
    assert ran.out == "Modified instance web1\n - nic.ip/0 -> 192.0.2.1,::1\n - nic.ip/1 -> none\n - be/vcpus -> 2\n"


def test_a_dry_run_prints_the_plan_only(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_SET_PARAMS"] = ["nic/1: remove"]
    assert gnt("gnt-instance modify --dry-run --net 1:remove web1").out == "nic/1: remove\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("", "Please give at least one of the parameters"),
        ("--force", "Please give at least one of the parameters"),
        ("--net remove --hotplug --no-hotplug", "exclude each other"),
        ("--net 0:modify", "no value to modify"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(gnt: Gnt, master: Master, options: str, complaint: str) -> None:
    ran = gnt(f"gnt-instance modify {options} web1")
    assert ran.code == 1
    assert complaint in ran.err
    assert not master.requests
