"""Pieces of data on a byte stream, and a word at its end that says why it ends.

On the wire: 4 bytes with the length (big endian) and that many bytes of data, repeated; then 4 zero bytes, and the word
until the end of the stream. So a stream that ends is distinguished from one that breaks.
"""

from gantry.runtime import bytestream

PIECE_BYTES = 32 << 10
"""The longest piece."""
WORD_BYTES = 1 << 10
"""The longest word at the end."""
_HEAD_BYTES = 4


def piece(data: bytes) -> bytes:
    """Return a piece as it is on the wire.

    >>> piece(b"ab"), end("done")
    (b'\\x00\\x00\\x00\\x02ab', b'\\x00\\x00\\x00\\x00done')
    """
    return len(data).to_bytes(_HEAD_BYTES, "big") + data


def end(word: str) -> bytes:
    """Return the end of a stream as it is on the wire."""
    return bytes(_HEAD_BYTES) + word.encode()[:WORD_BYTES]


class Frames:
    """The receiving end: ``read`` the pieces until the empty one, then ``word`` has the word."""

    def __init__(self, reader: bytestream.Reader) -> None:
        self._reader = reader
        self.word = ""

    async def read(self) -> bytes:
        """Return the next piece, empty at the end; ConnectionError if the stream breaks or is not valid."""
        size = int.from_bytes(await self._exactly(_HEAD_BYTES), "big")
        if size > PIECE_BYTES:
            raise ConnectionAbortedError(f"the peer announced {size} bytes at once, the limit is {PIECE_BYTES}")
        if size:
            return await self._exactly(size)
        word = bytearray()
        while len(word) <= WORD_BYTES and (data := await self._reader.read(WORD_BYTES)):
            word += data
        self.word = bytes(word[:WORD_BYTES]).decode(errors="replace")
        return b""

    async def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await self._reader.read(size - len(data))
            if not part:
                raise ConnectionResetError("the stream broke")
            data += part
        return bytes(data)
