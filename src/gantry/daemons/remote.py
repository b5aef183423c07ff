"""gantry-rapi: the remote API, a process of its own on the master that reaches it by LUXI (seed "Remote API changes").

    gantry-rapi [--bind ADDRESS] [--port PORT] [--no-ssl] [--require-authentication] [--root DIR] [--debug]

It holds no state: it may be started and stopped at any time, and waits for no master daemon. It shows the certificate
in ``lib/rapi.pem`` with its key, or else that of the machine's node daemon, which the cluster's authority issued. Its
logs are ``log/rapi-daemon.log`` and ``log/rapi-access.log``, its users those of ``lib/users``.
"""

import argparse
import asyncio
import ipaddress
import logging
import os
import signal
import ssl
import sys
from collections.abc import Sequence

from gantry import __version__, errors, security
from gantry.daemons import logs
from gantry.doors import http, rapi
from gantry.doors.http import users
from gantry.rpc import luxi
from gantry.runtime import interface, paths, real

log = logging.getLogger(__name__)

PORT = 5080


def server(runtime: interface.Runtime, folders: paths.Paths, *, anonymous: bool = True) -> http.Server:
    """Wire the remote API of a master; ``anonymous`` lets everybody read what is open."""
    application = rapi.Application(runtime, luxi.Calls(runtime.network, folders.luxi_socket))
    known = users.Users(runtime, folders.users)
    return http.Server(runtime, application, known=known, anonymous=anonymous)


def _tls(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the context of the server; None without TLS, which is for this machine's own use."""
    if options.no_ssl:
        if not _is_loopback(options.bind):
            raise errors.InvalidError(
                f"without TLS passwords would be sent as they are to {options.bind}", hint="add --bind 127.0.0.1"
            )
        return None
    own = f"{folders.lib}/rapi.pem"
    certificate, key = f"{folders.certificates}/node.pem", f"{folders.certificates}/node.key"
    if runtime.disk.exists(own):
        certificate = key = own
    try:
        return security.bootstrap_server_context(certificate, key)
    except OSError as error:
        raise errors.ConfigurationError(
            f"the certificate {certificate} cannot be used: {error}", hint="does this machine belong to a cluster?"
        ) from None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


async def _run(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> None:
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "rapi-daemon", debug=options.debug)
    logs.configure_access(folders, "rapi-access")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    made = server(runtime, folders, anonymous=not options.require_authentication)
    await made.open(options.bind, options.port, tls=_tls(runtime, folders, options))
    log.info("the remote API listens on %s port %d", options.bind, options.port)
    try:
        await stop.wait()
    finally:
        await made.close()
    log.info("the remote API has stopped")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gantry-rapi", description="The remote API of a Gantry cluster.")
    parser.add_argument("-b", "--bind", default="0.0.0.0", metavar="ADDRESS", help="where to listen (default: all)")
    parser.add_argument("-p", "--port", type=int, default=PORT, help=f"TCP port (default: {PORT})")
    parser.add_argument("--no-ssl", action="store_true", help="plain HTTP, on a loopback address only")
    parser.add_argument(
        "--require-authentication", action="store_true", help="nobody may read without a name and a password"
    )
    parser.add_argument("--root", default=os.environ.get("GANTRY_ROOT", ""), help="folder that holds all of its files")
    parser.add_argument("--debug", action="store_true", help="log more")
    parser.add_argument("--version", action="version", version=f"gantry-rapi {__version__}")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 0 after a signal, 1 when it cannot run."""
    options = _arguments(argv)
    try:
        asyncio.run(_run(real.RealRuntime(), paths.Paths.below(options.root), options))
    except errors.GantryError as error:
        print(f"gantry-rapi: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"gantry-rapi: {error.strerror or error}{where}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
