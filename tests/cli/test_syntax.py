import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli import failures, syntax

KEYS = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,")


def written(values: dict[str, str | bool | None]) -> str:
    marks = {True: "{}", False: "no_{}", None: "-{}"}
    return ",".join(
        f"{key}={escaped(value)}" if isinstance(value, str) else marks[value].format(key)
        for key, value in values.items()
    )


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_pieces_come_back_as_they_were_escaped(parts: list[str]) -> None:
    assert syntax.pieces(",".join(map(escaped, parts))) == parts


@given(st.dictionaries(KEYS, TEXTS | st.booleans() | st.none(), max_size=5))
def test_key_values_come_back_as_they_were_written(values: dict[str, str | bool | None]) -> None:
    assert syntax.key_values(written(values)) == values


@given(TEXTS)
def test_any_text_is_either_understood_or_refused(text: str) -> None:
    for parse in (syntax.key_values, syntax.identified, syntax.hypervisor, syntax.size):
        with contextlib.suppress(failures.InvalidError):
            parse(text)


def test_null_becomes_the_word_that_takes_a_setting_back() -> None:
    assert syntax.parameters("a=1,no_b,-c,d") == {"a": "1", "b": False, "c": "default", "d": True}


@pytest.mark.parametrize("text", ["a=1,a=2", "=1", "a=1,,b=2", ","])
def test_broken_key_values_are_refused(text: str) -> None:
    with pytest.raises(failures.InvalidError):
        syntax.key_values(text)


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("1", 1), ("512", 512), ("512m", 512), ("10g", 10240), ("10G", 10240), ("1.5g", 1536), ("2t", 2097152)]
    + [("512k", 1), ("2048k", 2), ("1GiB", 1024), ("20gb", 20480)],
)
def test_sizes_have_units(text: str, mebibytes: int) -> None:
    assert syntax.size(text) == mebibytes


@pytest.mark.parametrize("text", ["", "0", "-1", "-5g", "g", "10x", "1e3", "0.0g", "ten"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(failures.InvalidError, match="is not a size"):
        syntax.size(text)


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("5s", 5), ("2m", 120), ("1h", 3600), ("1w", 604800)])
def test_ages_have_units(text: str, seconds: int) -> None:
    assert syntax.seconds(text) == seconds


def test_memory_has_a_unit_where_it_is_a_size() -> None:
    given_parameters = syntax.backend("memory=1g,vcpus=2,maxmem=default,minmem=130")
    assert given_parameters == {"memory": 1024, "vcpus": "2", "maxmem": "default", "minmem": "130"}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("kvm", ("kvm", {})),
        ("kvm:accel=tcg,no_acpi", ("kvm", {"accel": "tcg", "acpi": False})),
        ("accel=tcg", ("", {"accel": "tcg"})),
        (
            "cdrom=/srv/boot.iso,boot_order=cdrom:network",
            ("", {"cdrom": "/srv/boot.iso", "boot_order": "cdrom:network"}),
        ),
        ("kvm:kernel_args=console=ttyS0", ("kvm", {"kernel_args": "console=ttyS0"})),
    ],
)
def test_a_hypervisor_may_stand_in_front_of_its_parameters(text: str, parsed: object) -> None:
    assert syntax.hypervisor(text) == parsed


def test_addresses_of_a_nic_become_a_list() -> None:
    (nic,) = syntax.nics(["0:ip0=192.0.2.4,ip1=pool,ip2=some-pool-name,network=network1"])
    assert nic == {"ip": ["192.0.2.4", "pool", "some-pool-name"], "network": "network1"}


def test_ip_is_the_first_address() -> None:
    assert syntax.nics(["0:ip1=2001:db8::5,ip=pool"]) == [{"ip": ["pool", "2001:db8::5"]}]


def test_a_bare_word_of_a_nic_is_its_network() -> None:
    assert syntax.nics(["0:ip=pool,network1"]) == [{"ip": ["pool"], "network": "network1"}]


def test_nics_come_in_the_order_of_their_numbers() -> None:
    assert syntax.nics(["1:link=br1", "0:mac=aa:00:00:11:22:33"]) == [{"mac": "aa:00:00:11:22:33"}, {"link": "br1"}]


def test_the_default_bridge_and_no_address_are_left_to_the_master() -> None:
    assert syntax.nics(["0:bridge=auto,ip=none,mac=auto"]) == [{"mac": "auto"}]
    assert syntax.nics(["0"]) == [{}]


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["1:link=br0"], "start at 0"),
        (["0:link=a", "0:link=b"], "twice"),
        (["x:link=a"], "not a device number"),
        (["link=a"], "not of the form"),
        (["0:ip=1.2.3.4,ip0=1.2.3.4"], "ip and ip0"),
        (["0:ip0=pool,ip2=pool"], "no gaps"),
        (["0:ip1=pool"], "no gaps"),
        (["0:colour=red"], "unknown colour.*there are mac"),
        (["0:ip=,network=n"], "no address"),
        (["0:no_link"], "no value"),
        (["0:network="], "no value"),
    ],
)
def test_a_nic_that_is_not_understood_says_why(texts: list[str], complaint: str) -> None:
    with pytest.raises(failures.InvalidError) as caught:
        syntax.nics(texts)
    assert re.search(complaint, caught.value.text())


def test_disks_have_sizes_and_modes() -> None:
    assert syntax.disks(["0:size=10g,mode=ro", "1:size=512,access=r,name=data"]) == [
        {"size": 10240, "mode": "ro"},
        {"size": 512, "mode": "r", "name": "data"},
    ]
    # a disk whose size is not said has the default one
    assert syntax.disks(["0:mode=ro", "1", "2:size=auto"]) == [
        {"mode": "ro", "size": "auto"},
        {"size": "auto"},
        {"size": "auto"},
    ]


@pytest.mark.parametrize("text", ["0:size=0", "0:size=-1", "0:size=1g,colour=red", "0:size"])
def test_a_disk_without_a_good_size_is_refused(text: str) -> None:
    with pytest.raises(failures.InvalidError):
        syntax.disks([text])
