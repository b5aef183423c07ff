"""The file ``journal-end``: what is written is read, whatever is torn, damaged or of an earlier version beside it."""

import zlib

import pytest

from gantry.lib_files import journal_end

OLD = journal_end.Mark(7, 2, "a" * 64, 12)
NEW = journal_end.Mark(3, 3, "b" * 64, 11)


def checked(text: str) -> bytes:
    return b"%s %08x\n" % (text.encode(), zlib.crc32(text.encode()))


def test_the_highest_position_counts_wherever_it_stands() -> None:
    content = journal_end.decode(journal_end.encode(NEW) + journal_end.encode(OLD))
    assert (content.marks, content.invalid, content.furthest) == ((NEW, OLD), 0, NEW)


def test_an_empty_file_says_nothing() -> None:
    assert journal_end.decode(b"").furthest is None


@pytest.mark.parametrize("end", [journal_end.encode(OLD)[-40:-1], bytes(200), b"7 2 aa 00000000\n"])
def test_a_line_that_is_not_whole_does_not_count(end: bytes) -> None:
    content = journal_end.decode(journal_end.encode(NEW) + end)
    assert (content.furthest, content.invalid) == (NEW, 1)


def test_the_job_number_is_that_of_the_line_before() -> None:
    earlier = journal_end.Mark(9, 3, "cc")
    content = journal_end.decode(journal_end.encode(NEW) + checked("9 3 cc"))
    assert (content.marks, content.invalid) == ((NEW, earlier), 0)
    assert journal_end.encode(earlier) == checked("9 3 cc")


@pytest.mark.parametrize("text", ["7 %s a", "%s 2 a", "-7 2 a", "7 2.5 a", "7 two a", "7 2", "job %s"])
def test_impossible_numbers_do_not_count_whatever_the_checksum(text: str) -> None:
    content = journal_end.decode(checked(text.replace("%s", "9" * 4002)))
    assert (content.furthest, content.invalid) == (None, 1)
