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
