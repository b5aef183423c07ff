"""The files of epochs and grants: what is written is read, and a damaged file is never taken for a lower number."""

import pytest

from gantry.lib_files import epoch
from gantry.rpc import calls

PROVEN = epoch.Mastership(7, "u1", is_proven=True)
UNPROVEN = epoch.Mastership(9, "u2")


@pytest.mark.parametrize("written", [[PROVEN], [PROVEN, UNPROVEN], [epoch.Mastership(3)], []])
def test_what_is_written_is_read(written: list[epoch.Mastership]) -> None:
    assert list(dict.fromkeys(epoch.decode(epoch.encode(written)))) == written


def test_one_damaged_line_of_two_loses_nothing() -> None:
    content = bytearray(epoch.encode([PROVEN]))
    content[0] ^= 1
    assert epoch.decode(bytes(content)) == [PROVEN]


@pytest.mark.parametrize("content", [b"", b"seven", b"9" * 4002, b"7 u1 proven 00000000\n", b"-7"])
def test_what_is_no_epoch_says_nothing(content: bytes) -> None:
    assert epoch.decode(content) == []


def test_the_first_versions_wrote_a_number_alone() -> None:
    assert epoch.decode(b"5") == [epoch.Mastership(5)]


def test_grants_are_read_as_they_are_written() -> None:
    grant = calls.GrantedEpoch(epoch=4, node="node2", uuid="u2")
    assert epoch.decode_grant(epoch.encode_grant(grant)) == grant
    assert epoch.decode_grant(b'{"epoch":4,"node":"node2"}') == calls.GrantedEpoch(epoch=4, node="node2")
    assert epoch.decode_given_up(epoch.encode_given_up(4, 17)) == (4, 17)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"epoch":-1}', b"[4]", b'[4,"x"]'])
def test_a_damaged_grant_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|truncated|Expected|utf-8"):
        epoch.decode_grant(content)
    with pytest.raises(ValueError, match=r"JSON|truncated|Expected|utf-8"):
        epoch.decode_given_up(content)
