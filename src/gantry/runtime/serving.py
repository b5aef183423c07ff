"""Serve a byte stream, real or simulated: one that a socket has accepted, or that of a connected program."""

from gantry.runtime import bytestream


async def serve(handler: bytestream.Handler, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    """Serve a stream with ``handler``, then close the stream."""
    try:
        await handler(reader, writer)
    except ConnectionError:
        pass  # the peer closed the connection during a write
    finally:
        writer.close()
