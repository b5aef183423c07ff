"""Pools: what is handed out, counted, drawn, split and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import errors
from gantry.address import pools, ranges, space


def run(text: str) -> ranges.Range:
    return ranges.parse_range(text)[1]


def number(text: str) -> int:
    return ranges.parse_address(text).value


@pytest.mark.parametrize(
    ("cidr", "gateway", "never"),
    [
        ("192.0.2.0/24", "192.0.2.1", ["192.0.2.0-192.0.2.1", "192.0.2.255"]),
        ("192.0.2.0/30", None, ["192.0.2.0", "192.0.2.3"]),
        ("192.0.2.0/31", None, []),
        ("192.0.2.0/31", "192.0.2.1", ["192.0.2.1"]),
        ("192.0.2.7/32", None, []),
        ("2001:db8::/64", "2001:db8::1", ["2001:db8::-2001:db8::1"]),
        ("2001:db8::/126", None, ["2001:db8::"]),
        ("2001:db8::/127", None, []),
        ("2001:db8::/128", None, []),
    ],
)
def test_ends_of_subnets_and_gateways_are_never_handed_out(cidr: str, gateway: str | None, never: list[str]) -> None:
    numbers_of_ends = pools.never_handed_out(ranges.parse_cidr(cidr), gateway=number(gateway) if gateway else None)
    assert numbers_of_ends == [run(text) for text in never]


def test_the_first_free_address_is_neither_used_nor_excluded_nor_taken() -> None:
    pool = run("10.0.0.8-10.0.0.15")
    numbers = space.Space.of([run("10.0.0.8"), run("10.0.0.13")])
    excluded = [run("10.0.0.0-10.0.0.9"), run("10.0.0.12")]
    parts = ranges.difference([pool], excluded)
    assert pools.first_free(numbers, parts) == number("10.0.0.10")
    taken = {number("10.0.0.10"), number("10.0.0.11"), number("10.0.0.14")}
    assert pools.first_free(numbers, parts, taken=taken) == number("10.0.0.15")
    assert pools.first_free(numbers, parts, taken=taken | {number("10.0.0.15")}) is None
    assert pools.first_free(numbers, []) is None


def test_a_huge_pool_is_searched_and_counted_like_a_small_one() -> None:
    cidr = ranges.parse_cidr("2001:db8::/64")
    numbers = space.Space.of([run("2001:db8::-2001:db8::ffff:ffff:ffff"), run("2001:db8:0:0:8000::")])
    excluded = ranges.union([run("2001:db8:0:0:1::-2001:db8:0:0:1:0:0:f")])
    assert pools.first_free(numbers, ranges.difference([cidr.range], excluded)) == number("2001:db8:0:0:1:0:0:10")
    assert pools.free_count(numbers, cidr.range, excluded=excluded) == (1 << 64) - (1 << 48) - 16 - 1


@pytest.mark.promise("networks-56")
@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_map_counts_and_first_free_agree_with_sets(used: set[int], external: set[int], taken: set[int]) -> None:
    numbers = space.Space.of(ranges.Range(number, number) for number in used)
    excluded = ranges.union(ranges.Range(number, number) for number in external)
    pool = ranges.Range(5, 30)
    free = [number for number in range(5, 31) if number not in used | external]
    drawn = pools.map_text(numbers, pool, excluded=excluded)
    assert drawn == "".join("." if number in free else "X" for number in range(5, 31))
    assert pools.free_count(numbers, pool, excluded=excluded) == len(free)
    expected = next((number for number in free if number not in taken), None)
    assert pools.first_free(numbers, ranges.difference([pool], excluded), taken=taken) == expected


def test_a_map_has_exactly_the_length_of_its_range_up_to_the_limit() -> None:
    assert pools.map_text(space.Space(), run("10.0.0.0/16"), excluded=[]) == "." * 65536
    with pytest.raises(errors.InvalidError, match=r"a map of 65537 addresses is too long.*request the counts"):
        pools.map_text(space.Space(), run("10.0.0.0-10.1.0.0"), excluded=[])


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("192.0.2.0", "is the first address of the subnet 192.0.2.0/24"),
        ("192.0.2.255", "is the last address of the subnet 192.0.2.0/24"),
        ("192.0.2.1", "is the gateway of the subnet 192.0.2.0/24"),
        ("192.0.3.1", "is not inside the subnet 192.0.2.0/24"),
    ],
)
def test_an_address_that_no_instance_can_have_is_refused(address: str, why: str) -> None:
    cidr, gateway = ranges.parse_cidr("192.0.2.0/24"), number("192.0.2.1")
    pools.check_usable(cidr, number("192.0.2.2"), gateway=gateway)
    with pytest.raises(errors.InvalidError) as caught:
        pools.check_usable(cidr, number(address), gateway=gateway)
    assert f"{address} {why}" in str(caught.value)


def test_the_address_of_all_routers_is_no_instances() -> None:
    cidr = ranges.parse_cidr("2001:db8::/64")
    with pytest.raises(errors.InvalidError, match="2001:db8:: is the first address of the subnet"):
        pools.check_usable(cidr, cidr.range.first, gateway=None)
    pools.check_usable(cidr, cidr.range.last, gateway=None)
