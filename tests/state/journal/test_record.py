"""The form of a record in the journal, and what is not one."""

import math

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.model import cluster
from gantry.state.journal import record
from gantry.state.objects import snapshot

CHANGES = (snapshot.Put(build.vm(1, ip="10.0.0.1")), snapshot.Delete("networks", "net"), snapshot.Put(build.queued(3)))
RECORD = record.Record(serial=7, time=12.5, epoch=3, cause=build.CAUSE, changes=CHANGES)
WITHOUT_CHANGES = b'{"serial":7,"time":12.5,"epoch":3,"cause":{},"changes":[%s]}'


def test_a_record_is_read_as_it_was_written() -> None:
    encoded = record.encode(RECORD)
    assert b"\n" not in encoded
    assert record.decode(encoded) == RECORD
    assert record.encode_checked(RECORD) == encoded
    assert record.decode(encoded, kinds={"networks"}).changes == CHANGES[1:2]
    assert record.decode(encoded, kinds=()).changes == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (b'["drop","networks","net"]', "drop networks"),
        (b'["delete","wires","net"]', "delete wires"),
        (b'["put","wires",{"uuid":"w"}]', "wires"),
        (b'["delete","networks",7]', "Expected `str`, got `int`"),
        (b'["put","networks",{"name":"net1"}]', "missing required field `uuid`"),
        (b'["delete","networks"]', "Expected `array` of length 3"),
    ],
)
def test_a_change_that_this_version_does_not_know_makes_the_record_unreadable(change: bytes, what: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="not a record that this version can read: .*" + what):
        record.decode(WITHOUT_CHANGES % change)


def test_a_change_of_a_kind_that_is_skipped_may_be_unknown() -> None:
    known = record.encode(record.Record(serial=7, time=12.5, epoch=3, cause=build.CAUSE, changes=CHANGES[1:2]))
    unknown = known.replace(b"networks", b"wires")
    assert record.decode(unknown, kinds={"networks"}).changes == ()


@pytest.mark.parametrize("ratio", [math.inf, -math.inf, math.nan])
def test_what_could_not_be_read_back_is_not_written(ratio: float) -> None:
    policy = cluster.Policy(vcpu_ratio=ratio)
    change = snapshot.Put(msgspec.structs.replace(build.OWNER, ipolicy=policy))
    unreadable = record.Record(serial=7, time=12.5, epoch=3, cause=build.CAUSE, changes=(change,))
    with pytest.raises(errors.InternalError, match=r"nothing was changed: .*Expected `float`, got `null`.*vcpu-ratio"):
        record.encode_checked(unreadable)


@pytest.mark.parametrize("encoded", [b"", b"{", b"[]", b'{"serial":-1,"time":1,"epoch":0,"cause":{},"changes":[]}'])
def test_what_is_no_record_is_refused(encoded: bytes) -> None:
    with pytest.raises(errors.ConfigurationError, match="not a record that this version can read"):
        record.decode(encoded)
