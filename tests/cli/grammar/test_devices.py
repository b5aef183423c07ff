"""Device options of a new instance: the parameters they become, and the errors for invalid options."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Gnt, Master

from gantry.cli import errors
from gantry.cli.grammar import devices


def test_addresses_of_a_nic_become_a_list() -> None:
    (nic,) = devices.NICS.devices(["0:ip0=192.0.2.4,ip1=pool,ip2=some-pool-name,network=network1"])
    assert nic == {"ip": ["192.0.2.4", "pool", "some-pool-name"], "network": "network1"}


def test_ip_is_the_first_address() -> None:
    assert devices.NICS.devices(["0:ip1=2001:db8::5,ip=pool"]) == [{"ip": ["pool", "2001:db8::5"]}]


def test_a_bare_word_of_a_nic_is_its_network() -> None:
    assert devices.NICS.devices(["0:ip=pool,network1"]) == [{"ip": ["pool"], "network": "network1"}]


def test_nics_come_in_the_order_of_their_numbers() -> None:
    assert devices.NICS.devices(["1:link=br1", "0:mac=aa:00:00:11:22:33"]) == [
        {"mac": "aa:00:00:11:22:33"},
        {"link": "br1"},
    ]


def test_the_default_bridge_and_no_address_are_left_to_the_master() -> None:
    assert devices.NICS.devices(["0:bridge=auto,ip=none,mac=auto"]) == [{"mac": "auto"}]
    assert devices.NICS.devices(["0"]) == [{}]


@pytest.mark.parametrize(
    ("texts", "column", "complaint"),
    [
        (["1:link=br0"], 0, "NIC numbers must start at 0 without gaps, but are 1"),
        (["0:link=a", "0:link=b"], 0, "NIC 0 is defined twice"),
        (["x:link=a"], 0, "'x' is not a NIC"),
        (["link=a"], 0, "'link=a' is not a NIC"),
        ([""], 0, "'' is not a NIC"),
        (["0:ip=1.2.3.4,ip0=1.2.3.4"], 13, "ip and ip0"),
        (["0:ip0=pool,ip2=pool"], 11, "without gaps"),
        (["0:ip1=pool"], 2, "without gaps"),
        (["0:link=br0,colour=red"], 11, "unknown key colour; valid keys: mac"),
        (["0:ntework=net1"], 2, "did you mean network?"),
        (["0:network=n,ip="], 12, "no address"),
        (["0:mode=routed,no_link"], 14, "no value"),
        (["0:network="], 2, "no value"),
        (["0:link=a,link=b"], 9, "sets link twice"),
        (["0:link=a,=b"], 9, "not of the form"),
    ],
)
def test_a_nic_that_is_not_understood_shows_the_place_and_the_forms(
    texts: list[str], column: int, complaint: str
) -> None:
    with pytest.raises(errors.MalformedError) as caught:
        devices.NICS.devices(texts)
    message = caught.value.text()
    assert complaint in message
    assert f"\n    {texts[-1]}\n    {' ' * column}^\n" in message
    assert "N:KEY=VALUE,..." in message


def test_a_gap_is_shown_at_the_number_behind_it() -> None:
    with pytest.raises(errors.MalformedError, match=r"but are 0, 2\n    2:link=b\n    \^"):
        devices.NICS.devices(["2:link=b", "0:link=a"])


def test_what_is_not_understood_is_refused_before_anything_is_sent(gnt: Gnt, master: Master) -> None:
    ran = gnt("gnt-instance add -t diskless -o none -n node1 --net 0:ip0=pool,netwrok=net1 web1")
    assert ran.code == 1
    assert "unknown key netwrok; did you mean network?\n    0:ip0=pool,netwrok=net1\n               ^\n" in ran.err
    assert not master.requests


def test_disks_have_sizes_and_modes() -> None:
    assert devices.DISKS.devices(["0:size=10g,mode=ro", "1:size=512,access=r,name=data"]) == [
        {"size": 10240, "mode": "ro"},
        {"size": 512, "mode": "r", "name": "data"},
    ]
    # a disk without a size gets the default size
    assert devices.DISKS.devices(["0:mode=ro", "1", "2:size=auto"]) == [
        {"mode": "ro", "size": "auto"},
        {"size": "auto"},
        {"size": "auto"},
    ]


@pytest.mark.parametrize("text", ["0:size=0", "0:size=-1", "0:size=1g,colour=red", "0:size"])
def test_a_disk_without_a_good_size_is_refused(text: str) -> None:
    with pytest.raises(errors.MalformedError):
        devices.DISKS.devices([text])


@given(st.text(alphabet="01:,=ip\\-no_ é", max_size=12))
def test_any_text_is_either_understood_or_refused(text: str) -> None:
    for grammar in (devices.NICS, devices.DISKS):
        with contextlib.suppress(errors.MalformedError):
            grammar.devices([text])
