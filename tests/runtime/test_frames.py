"""Pieces of data with a word at the end: what is sent arrives, and a stream that breaks is not one that ends."""

import asyncio

import pytest

from gantry.runtime import frames


def stream(data: bytes) -> frames.Frames:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return frames.Frames(reader)


async def test_pieces_and_the_word_arrive() -> None:
    received = stream(frames.piece(b"one") + frames.piece(bytes(frames.PIECE_BYTES)) + frames.end("taken carol"))
    assert await received.read() == b"one"
    assert await received.read() == bytes(frames.PIECE_BYTES)
    assert (await received.read(), received.word) == (b"", "taken carol")


async def test_a_piece_that_arrives_in_parts_ends_where_the_next_begins() -> None:
    reader = asyncio.StreamReader()
    received, data = frames.Frames(reader), frames.piece(b"abcdef") + frames.piece(b"next")
    reader.feed_data(data[:7])
    reading = asyncio.ensure_future(received.read())
    for _ in range(3):
        await asyncio.sleep(0)
    reader.feed_data(data[7:])
    reader.feed_eof()
    assert [await reading, await received.read()] == [b"abcdef", b"next"]


@pytest.mark.parametrize("data", [b"", b"\0\0", frames.piece(b"abc")[:-1]])
async def test_a_stream_that_ends_without_a_word_has_broken(data: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        await stream(data).read()


async def test_a_piece_or_a_word_that_is_too_long_is_not_kept() -> None:
    with pytest.raises(ConnectionAbortedError):
        await stream((frames.PIECE_BYTES + 1).to_bytes(4, "big")).read()
    received = stream(bytes(4) + b"x" * 5000)
    await received.read()
    assert len(received.word) == frames.WORD_BYTES


async def test_a_word_that_is_cut_within_a_letter_is_readable() -> None:
    received = stream(frames.end("x" + "ö" * frames.WORD_BYTES))
    assert await received.read() == b""
    assert received.word == "x" + "ö" * (frames.WORD_BYTES // 2 - 1) + "\N{REPLACEMENT CHARACTER}"
