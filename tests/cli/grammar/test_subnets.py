import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli import errors
from gantry.cli.grammar import subnets, syntax

PARSERS = (subnets.subnet, subnets.pool, subnets.subnet_change, subnets.pool_change)
WORDS = [
    "add:",
    "modify",
    "remove",
    ":",
    ",",
    "=",
    "cidr",
    "gateway",
    "dhcp",
    "name",
    "pool",
    "subnet",
    "size",
    "start",
]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.lists(st.sampled_from([*WORDS, "yes", "none", "lan", "10.0.0.0/24", "2001:db8::", "\\", "-", "no_"])).map(
        "".join
    ),
)


@given(TEXTS)
def test_any_text_is_either_understood_or_refused(text: str) -> None:
    for parse in PARSERS:
        with contextlib.suppress(errors.MalformedError):
            parse(text)


@pytest.mark.parametrize("prefix", ["", "add:"])
def test_subnets_and_pools_of_a_new_network_take_the_word_add(prefix: str) -> None:
    subnet = subnets.subnet(f"{prefix}cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true,name=lan")
    assert subnet == {"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dhcp": True, "name": "lan"}
    assert subnets.subnet(f"{prefix}cidr=2001:db8::/64,pool") == {"cidr": "2001:db8::/64", "pool": True}
    pool = subnets.pool(f"{prefix}192.0.2.10-192.0.2.100,name=pool1")
    assert pool == {"range": "192.0.2.10-192.0.2.100", "name": "pool1"}
    for written in ("2001:db8::1-2001:db8::ff", "::/64", "fe80::1%eth0", "10.0.0.1 - 10.0.0.5", "10.0.0.0/255.0.0.0"):
        assert subnets.pool(f"{prefix}{written}") == {"range": written}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (
            "add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true",
            {"action": "add", "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dhcp": True},
        ),
        (
            "add:cidr=2001::/64,gateway=2001::1,dhcp=true",
            {"action": "add", "cidr": "2001::/64", "gateway": "2001::1", "dhcp": True},
        ),
        ("add:cidr=10.0.0.0/27,pool", {"action": "add", "cidr": "10.0.0.0/27", "pool": True}),
        ("lan:modify,dhcp=false,name=foo", {"action": "modify", "ident": "lan", "dhcp": False, "name": "foo"}),
        ("10.0.0.0/24:modify,cidr=10.0.0.0/22", {"action": "modify", "ident": "10.0.0.0/24", "cidr": "10.0.0.0/22"}),
        ("2001:db8::/64:modify,no_dhcp", {"action": "modify", "ident": "2001:db8::/64", "dhcp": False}),
        ("add:db8::/64:modify,dhcp", {"action": "modify", "ident": "add:db8::/64", "dhcp": True}),
        ("2001:db8::/64:remove", {"action": "remove", "ident": "2001:db8::/64"}),
        ("modify:remove", {"action": "remove", "ident": "modify"}),
        ("a-b-c:modify,-gateway,-name", {"action": "modify", "ident": "a-b-c", "gateway": "none", "name": "none"}),
    ],
)
def test_actions_on_subnets(text: str, parsed: syntax.Structure) -> None:
    assert subnets.subnet_change(text) == parsed


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("add:192.0.2.10-192.0.2.100,name=p", {"action": "add", "range": "192.0.2.10-192.0.2.100", "name": "p"}),
        ("add:10.0.0.0/27", {"action": "add", "range": "10.0.0.0/27"}),
        ("add:10.0.0.100", {"action": "add", "range": "10.0.0.100"}),
        ("add:range=10.0.0.100", {"action": "add", "range": "10.0.0.100"}),
        ("add:subnet=2001:db8::/64", {"action": "add", "subnet": "2001:db8::/64"}),
        ("add:name=p,subnet=lan", {"action": "add", "subnet": "lan", "name": "p"}),
        ("add:start=10.0.0.7,size=14", {"action": "add", "range": {"start": "10.0.0.7", "size": 14}}),
        ("add:start=::7,end=::9,name=p", {"action": "add", "range": {"start": "::7", "end": "::9"}, "name": "p"}),
        ("remove:192.0.2.20-192.0.2.50", {"action": "remove", "range": "192.0.2.20-192.0.2.50"}),
        ("remove:2001:db8::10-2001:db8::1f", {"action": "remove", "range": "2001:db8::10-2001:db8::1f"}),
        ("web:remove", {"action": "remove", "ident": "web"}),
        ("web:modify,name=none", {"action": "modify", "ident": "web", "name": "none"}),
        (
            "2001:db8::1-2001:db8::9:modify,name=p",
            {"action": "modify", "ident": "2001:db8::1-2001:db8::9", "name": "p"},
        ),
    ],
)
def test_actions_on_pools(text: str, parsed: syntax.Structure) -> None:
    assert subnets.pool_change(text) == parsed


SUBNET, POOL, NEW_SUBNET, NEW_POOL = subnets.subnet_change, subnets.pool_change, subnets.subnet, subnets.pool


@pytest.mark.parametrize(
    ("parse", "text", "mark", "complaint"),
    [
        (SUBNET, "2001:db8::/64:modfy,dhcp=no", "              ^", "'modfy' is not an action"),
        (SUBNET, "lan", "^", "'lan' is not an action"),
        (SUBNET, "", "^", "'' is not an action"),
        (SUBNET, ":remove", "^", "the name of the object before :remove is missing"),
        (SUBNET, "lan:modify", "          ^", "no value to modify"),
        (SUBNET, "lan:modify,", "           ^", "a key is missing; valid keys: cidr, gateway, dhcp, name"),
        (SUBNET, "lan:modify,pool", "           ^", "unknown key 'pool'; valid keys"),
        (SUBNET, "lan:modify,dhcp=no,dhpc=no", "                   ^", "unknown key 'dhpc'; valid keys"),
        (SUBNET, "lan:modify,dhcp=no,dhcp=no", "                   ^", "dhcp is set twice"),
        (SUBNET, "lan:modify,dhcp=maybe", "                ^", "dhcp=maybe is not valid"),
        (SUBNET, "lan:modify,gateway=", "                   ^", "gateway has no value"),
        (SUBNET, "lan:modify,-cidr", "                ^", "cidr has no value"),
        (SUBNET, "lan:remove,name=x", "          ^", "remove does not take values"),
        (SUBNET, "add:gateway=10.0.0.1", "                    ^", "the subnet has no cidr"),
        (SUBNET, "add:cidr=10.0.0.0/24,", "                     ^", "a key is missing"),
        (NEW_SUBNET, "cidr", "    ^", "cidr has no value"),
        (NEW_SUBNET, "cidr=a,b=c", "       ^", "unknown key 'b'; valid keys: cidr, gateway, dhcp, name, pool"),
        (NEW_POOL, "", "^", "range has no value"),
        (NEW_POOL, "add:", "    ^", "range has no value"),
        (NEW_POOL, ",name=x", "^", "range has no value"),
        (NEW_POOL, "10.0.0.1,name=", "              ^", "name has no value"),
        (NEW_POOL, "10.0.0.1,colour=red", "         ^", "unknown key 'colour'; valid keys"),
        (NEW_POOL, "10.0.0.1,range=10.0.0.2", "         ^", "range is set twice"),
        (NEW_POOL, "10.0.0.1,subnet=lan", "^", "give either a range or a subnet of the pool"),
        (POOL, "add:name=x", "    ^", "give either a range or a subnet of the pool"),
        (POOL, "add:size=5", "^", "a range needs start=ADDRESS"),
        (POOL, "add:start=10.0.0.1,size=-5", "                   ^", "a range needs start=ADDRESS, and size=COUNT"),
        (POOL, "10.0.0.1-10.0.0.5,name=x", "^", "'10.0.0.1-10.0.0.5' is not an action"),
        (POOL, "remove:", "       ^", "remove: takes exactly one range"),
        (POOL, "remove:10.0.0.1,name=x", "               ^", "remove: takes exactly one range"),
        (POOL, "web:modify,size=5", "           ^", "unknown key 'size'; valid keys: name"),
        (POOL, "add:web", "    ^", "'web' is not an address range"),
        (POOL, "add:10.0.0.1-,name=x", "    ^", "'10.0.0.1-' is not an address range"),
        (POOL, "add:-10.0.0.1", "    ^", "'-10.0.0.1' is not an address range"),
        (POOL, "add:name=x,range=web", "                 ^", "'web' is not an address range"),
        (POOL, "remove:web", "       ^", "'web' is not an address range"),
        (NEW_POOL, "web:remove", "^", "'web:remove' is not an address range"),
        (NEW_POOL, "remove:10.0.0.1", "^", "'remove:10.0.0.1' is not an address range"),
    ],
)
def test_what_is_not_understood_is_pointed_at(
    parse: Callable[[str], syntax.Structure], text: str, mark: str, complaint: str
) -> None:
    with pytest.raises(errors.MalformedError) as caught:
        parse(text)
    summary, quoted, pointer, heading, *forms = caught.value.message.split("\n")
    assert complaint in summary
    assert (quoted, pointer, heading) == (f"    {text}", f"    {mark}", "valid forms:")
    assert "add:" in forms[0]
    assert summary.startswith("--subnet: " if parse in (SUBNET, NEW_SUBNET) else "--pool: ")


def test_a_subnet_may_be_a_cidr_without_its_key() -> None:
    for text, prefix in (("10.1.0.0/24", ""), ("add:2001:db8::/64", "add:")):
        cidr = {"cidr": text.removeprefix(prefix)}
        assert subnets.subnet(text) == cidr
        assert subnets.subnet(f"{text},name=lan,pool") == {**cidr, "name": "lan", "pool": True}
        assert subnets.subnet_change(f"add:{cidr['cidr']}") == {"action": "add", **cidr}
    for text in ("lan", "10.1.0.0", "name=a,10.1.0.0/24"):
        with pytest.raises(errors.MalformedError):
            subnets.subnet(text)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("192.0.2.30-40", "192.0.2.30-192.0.2.40"),
        ("192.0.2.30-192.0.2.40", "192.0.2.30-192.0.2.40"),
        ("192.0.2.30", "192.0.2.30"),
        ("192.0.2.0/28", "192.0.2.0/28"),
        ("2001:db8::1-2001:db8::2", "2001:db8::1-2001:db8::2"),
    ],
)
def test_the_end_of_an_ipv4_range_may_be_its_last_number(text: str, full: str) -> None:
    assert subnets.ranges(f"10.0.0.9,{text}") == ["10.0.0.9", full]
    assert subnets.pool(f"{text},name=web") == {"range": full, "name": "web"}
    assert subnets.pool_change(f"remove:{text}") == {"action": "remove", "range": full}
