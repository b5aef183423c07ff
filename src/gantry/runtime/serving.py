"""How a stream is served, real or simulated, whoever has accepted it: a listening socket, or a program we attend."""

from gantry.runtime import bytestream


async def serve(handler: bytestream.Handler, reader: bytestream.Reader, writer: bytestream.Writer) -> None:
    """Have a stream served, and end it then."""
    try:
        await handler(reader, writer)
    except ConnectionError:
        pass  # the peer hung up while we wrote
    finally:
        writer.close()
