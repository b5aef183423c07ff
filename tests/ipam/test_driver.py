"""The request that the value of a NIC's ``ip`` means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import errors
from gantry.address import ranges
from gantry.ipam import driver


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("pool", driver.AnyAddress()),
        ("pool4", driver.AnyAddress(ranges.Family.IPV4)),
        ("pool6", driver.AnyAddress(ranges.Family.IPV6)),
        ("lan", driver.PoolAddress("lan")),
        ("pool-1.b", driver.PoolAddress("pool-1.b")),
        ("192.0.2.0/24", driver.PoolAddress("192.0.2.0/24")),
    ],
)
def test_a_word_requests_a_pool(text: str, request_: driver.Request) -> None:
    assert driver.parse(text, force=False) == request_


@pytest.mark.parametrize(("text", "canonical"), [("192.0.2.7", "192.0.2.7"), ("2001:DB8:0::7", "2001:db8::7")])
@pytest.mark.parametrize("force", [True, False])
def test_digits_and_colons_are_an_address(text: str, canonical: str, force: bool) -> None:
    parsed = driver.parse(text, force=force)
    assert parsed == driver.SpecificAddress(ranges.parse_address(canonical), force)
    assert isinstance(parsed, driver.SpecificAddress)
    assert str(parsed.address) == canonical


@pytest.mark.parametrize(
    "text", ["", "10", "192.0.2", "192.0.2.999", "1:2", "fe80::1%eth0", "::ffff:192.0.2.1", "none"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidError):
        driver.parse(text, force=False)


@given(st.text(min_size=1))
def test_a_pool_can_have_exactly_the_names_that_are_read_as_pools(text: str) -> None:
    try:
        named = driver.parse(text, force=False) == driver.PoolAddress(text)
    except errors.InvalidError:
        named = False
    assert named == (driver.can_name_pool(text) and text not in driver.KEYWORDS)
