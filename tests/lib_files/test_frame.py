import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.lib_files import frame

RECORDS = [b'{"serial":%d,"text":"%s"}' % (n, b"x" * (n * 97 % 700)) for n in range(1, 9)]


def lines() -> list[bytes]:
    frames: list[bytes] = []
    previous = frame.GENESIS
    for first in range(0, len(RECORDS), 2):
        frames.append(frame.pack(previous, RECORDS[first : first + 2]))
        previous = frame.digest(frames[-1])
    return frames


def test_frames_are_read_back_with_offset_records_and_chain() -> None:
    frames = list(frame.scan(b"".join(lines())))
    assert [bytes(raw) for each in frames for raw in each.records] == RECORDS
    assert [each.line for each in frames] == lines()
    assert [each.previous for each in frames] == [frame.GENESIS, *(each.digest for each in frames[:-1])]
    assert frames[1].offset == len(lines()[0])


def read(data: bytes) -> tuple[int, frame.DamageError | None]:
    count = 0
    try:
        for _ in frame.scan(data):
            count += 1
    except frame.DamageError as error:
        return count, error
    return count, None


@given(cut=st.integers(1, 10_000))
def test_a_beginning_of_the_last_frame_is_torn(cut: int) -> None:
    *whole, last = lines()
    beginning = last[: cut % len(last)]
    count, error = read(b"".join(whole) + beginning)
    assert count == len(whole)
    assert (type(error) is frame.TornError) == bool(beginning)
    assert error is None or error.offset == len(b"".join(whole))


@given(start=st.integers(0, 10_000), sectors=st.integers(1, 9))
def test_sectors_of_the_last_frame_that_were_never_written_are_torn(start: int, sectors: int) -> None:
    *whole, last = lines()
    begin = len(b"".join(whole))
    data = bytearray(b"".join(whole) + last)
    cuts = [begin, *range(begin // 512 * 512 + 512, len(data), 512), len(data)]
    first = start % (len(cuts) - 1)
    stop = min(first + sectors, len(cuts) - 1)
    data[cuts[first] : cuts[stop]] = bytes(cuts[stop] - cuts[first])
    assert type(read(bytes(data))[1]) is frame.TornError


@given(offset=st.integers(0, 10_000), mask=st.integers(1, 255))
def test_a_flipped_byte_before_the_last_frame_is_never_taken_for_anything_else(offset: int, mask: int) -> None:
    *whole, last = lines()
    data = bytearray(b"".join(whole) + last)
    data[offset % len(b"".join(whole))] ^= mask
    count, error = read(bytes(data))
    assert type(error) is frame.DamageError
    assert count < len(whole)
    assert error.offset == len(b"".join(whole[:count]))


def test_a_complete_last_frame_that_does_not_fit_its_checksum_is_damage_and_not_torn() -> None:
    data = bytearray(b"".join(lines()))
    data[-40] ^= 1
    assert type(read(bytes(data))[1]) is frame.DamageError


@pytest.mark.parametrize("tail", [b"\n", b"garbage", b"garbage\n", b"00000000 2 {}\n"])
def test_what_no_crash_leaves_behind_is_damage(tail: bytes) -> None:
    assert type(read(b"".join(lines()) + tail)[1]) is frame.DamageError
