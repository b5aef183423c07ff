"""Ranges: text in both directions, and arithmetic against sets."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gantry import errors
from gantry.address import ranges

V4, V6 = ranges.Family.IPV4, ranges.Family.IPV6

runs = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: ranges.Range(min(ends), max(ends)))
run_lists = st.lists(runs, max_size=6)


def numbers(*parts: ranges.Range) -> set[int]:
    return set(itertools.chain.from_iterable(range(part.first, part.last + 1) for part in parts))


def test_a_range_whose_last_number_is_below_its_first_is_refused() -> None:
    assert ranges.Range(5, 5).size == 1
    with pytest.raises(errors.InternalError, match="a range from 6 to 5 is empty"):
        ranges.Range(6, 5)


@pytest.mark.promise("networks-56")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("192.0.2.10-192.0.2.100", "192.0.2.10-192.0.2.100"),
        (" 192.0.2.10 - 192.0.2.100 ", "192.0.2.10-192.0.2.100"),
        ("10.0.0.0/27", "10.0.0.0-10.0.0.31"),
        ("10.0.0.100", "10.0.0.100"),
        ("10.0.0.100/32", "10.0.0.100"),
        ("10.0.0.7-10.0.0.7", "10.0.0.7"),
        ("2001:DB8:0:0::10-2001:db8::1:0", "2001:db8::10-2001:db8::1:0"),
        ("2001:db8::/124", "2001:db8::-2001:db8::f"),
        ("2001:db8::100", "2001:db8::100"),
        ("::/80", "::-::ffff:ffff:ffff"),
        ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
    ],
)
def test_a_range_is_read_in_all_forms_and_written_in_one(text: str, canonical: str) -> None:
    assert ranges.format_range(*ranges.parse_range(text)) == canonical
    assert ranges.format_range(*ranges.parse_range(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an IP address"),
        ("net1", "not an IP address"),
        ("10.0.0", "not an IP address"),
        ("10.0.0.256", "not an IP address"),
        ("010.0.0.1", "not an IP address"),
        ("10.0.0.1-", "not an IP address"),
        ("10.0.0.1-10.0.0.5-10.0.0.9", "it has 3 ends"),
        ("10.0.0.9-10.0.0.1", "write '10.0.0.1-10.0.0.9'"),
        ("10.0.0.1-2001:db8::1", "different address families"),
        ("10.0.0.5/24", "its network is '10.0.0.0/24'"),
        ("2001:db8::1/64", "its network is '2001:db8::/64'"),
        ("10.0.0.0/33", "a number from 0 to 32"),
        ("10.0.0.0/-1", "a number from 0 to 32"),
        ("10.0.0.0/255.255.255.0", "a number from 0 to 32"),
        ("10.0.0.0/²", "a number from 0 to 32"),
        ("2001:db8::/129", "a number from 0 to 128"),
        ("2001:db8::/", "a number from 0 to 128"),
        ("2001:db8::/64/64", "a number from 0 to 128"),
        ("::ffff:10.0.0.1", "write '10.0.0.1'"),
        ("::ffff:10.0.0.1-::ffff:10.0.0.9", "write '10.0.0.1'"),
        ("::ffff:0:0/96", "IPv4 address in IPv6 spelling"),
        ("fe80::1%eth0", "write 'fe80::1'"),
        ("fe80::1-fe80::9%2", "scope id"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        ranges.parse_range(text)
    assert why in str(caught.value)


def test_a_cidr_needs_its_prefix() -> None:
    with pytest.raises(errors.InvalidError, match="NETWORK/PREFIX"):
        ranges.parse_cidr("10.0.0.0")
    assert str(ranges.parse_cidr("2001:0DB8::/64")) == "2001:db8::/64"
    assert ranges.parse_cidr("10.0.0.0/8").range.size == 1 << 24


@given(st.sampled_from([V4, V6]), st.data())
def test_an_address_survives_the_way_through_text(family: ranges.Family, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, (1 << family.bits) - 1).filter(lambda value: value >> 32 != 0xFFFF))
    assert ranges.parse_address(ranges.format_address(family, value)) == ranges.Address(family, value)


@given(st.sampled_from([V4, V6]), st.data())
def test_a_cidr_contains_the_addresses_of_its_range_and_family(family: ranges.Family, data: st.DataObject) -> None:
    prefix = data.draw(st.integers(0, family.bits))
    host_bits = family.bits - prefix
    cidr = ranges.Cidr(family, data.draw(st.integers(0, (1 << prefix) - 1)) << host_bits, prefix)
    near = st.integers(max(0, cidr.first - 2), min((1 << family.bits) - 1, cidr.range.last + 2))
    value = data.draw(near)
    assert (ranges.Address(family, value) in cidr) == (value in cidr.range)
    assert ranges.Address(V6 if family is V4 else V4, value) not in cidr


def _numbers(family: ranges.Family) -> st.SearchStrategy[int]:
    """Return addresses with groups of zeros, which IPv6 texts shorten."""
    groups = st.sampled_from([0, 0, 0, 1, 0x10, 0x1234, 0xFFFF]) | st.integers(0, 0xFFFF)
    count = family.bits // 16
    return st.lists(groups, min_size=count, max_size=count).map(
        lambda numbers: sum(number << 16 * index for index, number in enumerate(numbers))
    )


@settings(max_examples=200)
@given(
    st.sampled_from([V4, V6]).flatmap(
        lambda family: st.tuples(st.just(family), _numbers(family), st.integers(0, family.bits), _numbers(family))
    )
)
@example((V6, 0, 34, 0x3FFF << 80 | 1))
def test_the_common_text_of_a_cidr_begins_all_of_its_addresses(drawn: tuple[ranges.Family, int, int, int]) -> None:
    family, number, prefix, inside = drawn
    host_bits = family.bits - prefix
    cidr = ranges.Cidr(family, number >> host_bits << host_bits, prefix)
    address = ranges.Address(family, cidr.first | inside & (1 << host_bits) - 1)
    assert str(address).startswith(ranges.common_text(cidr)), (str(cidr), str(address))


@pytest.mark.parametrize(
    ("cidr", "common"),
    [
        ("10.1.2.0/24", "10.1.2."),
        ("10.1.2.0/23", "10.1."),
        ("10.1.2.240/28", "10.1.2.2"),
        ("10.1.2.3/32", "10.1.2.3"),
        ("10.0.0.0/7", "1"),
        ("0.0.0.0/0", ""),
        ("2001:db8::/48", "2001:db8:"),
        ("2001:db8:1:2::/64", "2001:db8:1:2:"),
        ("2001:0:0:1::/64", "2001:"),
        ("2001:db8::/64", "2001:db8:"),
        ("2001:db8::/96", "2001:db8:"),
        ("::/34", ""),
        ("::/96", ""),
        ("::/0", ""),
    ],
)
def test_the_common_text_of_a_cidr_is_as_long_as_it_can_be(cidr: str, common: str) -> None:
    assert ranges.common_text(ranges.parse_cidr(cidr)) == common


@pytest.mark.parametrize("text", ["2001:DB8::1", "2001:db8:0::1", " 192.0.2.1"])
def test_an_address_of_the_state_has_its_canonical_text(text: str) -> None:
    canonical = str(ranges.parse_address(text))
    assert ranges.canonical_address(canonical) == ranges.parse_address(text)
    with pytest.raises(errors.InternalError, match=f"not stored in its canonical spelling {canonical}"):
        ranges.canonical_address(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_as_invalid(text: str) -> None:
    try:
        family, run = ranges.parse_range(text)
    except errors.InvalidError:
        return
    assert ranges.parse_range(ranges.format_range(family, run)) == (family, run)


@given(st.sampled_from([V4, V6]), st.integers(0, 1 << 20), st.integers(1, 1 << 20))
def test_cidrs_are_exactly_the_range(family: ranges.Family, first: int, size: int) -> None:
    run = ranges.sized(first, size)
    parts = ranges.cidrs(family, run)
    assert ranges.union(cidr.range for cidr in parts) == [run]
    assert ranges.size(cidr.range for cidr in parts) == run.size
    assert all(ranges.parse_cidr(str(cidr)) == cidr for cidr in parts)


def test_a_range_of_no_address_is_refused() -> None:
    assert ranges.sized(10, 10) == ranges.Range(10, 19)
    assert ranges.span(10, 9) is None
    with pytest.raises(errors.InvalidError, match="empty"):
        ranges.sized(10, 0)


@given(runs, runs)
def test_two_ranges_compute_as_sets(run: ranges.Range, other: ranges.Range) -> None:
    shared = run.intersection(other)
    assert numbers(*([shared] if shared else [])) == numbers(run) & numbers(other)
    assert numbers(*run.minus(other)) == numbers(run) - numbers(other)
    assert run.overlaps(other) == bool(numbers(run) & numbers(other))
    assert run.covers(other) == (numbers(run) >= numbers(other))
    assert run.size == len(numbers(run))


@pytest.mark.promise("networks-56")
@given(run_lists, run_lists)
def test_lists_of_ranges_compute_as_sets(parts: list[ranges.Range], removed: list[ranges.Range]) -> None:
    merged, remaining = ranges.union(parts), ranges.difference(parts, removed)
    assert numbers(*merged) == numbers(*parts)
    assert numbers(*remaining) == numbers(*parts) - numbers(*removed)
    for result in merged, remaining:
        assert all(before.last + 1 < after.first for before, after in itertools.pairwise(result))
        assert ranges.size(result) == len(numbers(*result))
    for number in range(32):
        located = ranges.locate(merged, number)
        assert located is not None and number in located if number in numbers(*parts) else located is None


@given(run_lists)
def test_an_overlap_is_found_if_there_is_one(parts: list[ranges.Range]) -> None:
    pair = ranges.first_overlap(parts)
    assert (pair is not None) == (sum(part.size for part in parts) > len(numbers(*parts)))
    assert pair is None or pair[0].overlaps(pair[1])
