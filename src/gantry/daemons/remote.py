"""gantry-rapi: the doors that speak HTTP, a process of its own on the master that reaches it by LUXI.

    gantry-rapi [--bind ADDRESS] [--port PORT] [--no-ssl] [--require-authentication] [--root DIR] [--debug]
                [--neutron-port PORT] [--neutron-auth http_basic|keystone|none] [--neutron-open]
                [--keystone-url URL ...]

The remote API (contracts/remote-api.md#design) is always there, the Neutron API if it is given a port. It holds no
state: it may be started and stopped at any time, and waits for no master daemon. It shows the certificate
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
from gantry.daemons import keystone, logs, program
from gantry.doors import http, neutron, rapi
from gantry.doors.http import users
from gantry.doors.neutron import access, identity
from gantry.doors.rapi import wire
from gantry.rpc import luxi
from gantry.runtime import interface, paths, real

log = logging.getLogger(__name__)

PORT = 5080


def server(runtime: interface.Runtime, folders: paths.Paths, *, anonymous: bool = True) -> http.Server:
    """Wire the remote API of a master; ``anonymous`` lets everybody read what is open."""
    gate = wire.Gate(users.Users(runtime, folders.users), anonymous=anonymous)
    master = luxi.Pool(runtime.network, folders.luxi_socket)
    return http.Server(runtime, rapi.Application(runtime, master, gate=gate))


def neutron_server(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    everybody: bool = False,
    tokens: access.Authenticator | None = None,
    scheme: str = "https",
) -> http.Server:
    """Wire the Neutron API of a master.

    ``everybody`` is its administrator, or who has ``tokens`` is let in, or else the users of the file log in. With
    tokens of another service that one is asked for projects too.
    """
    passwords = None if everybody or tokens else access.Passwords(runtime, users.Users(runtime, folders.users))
    application = neutron.Application(
        runtime,
        luxi.Pool(runtime.network, folders.luxi_socket),
        authenticator=tokens or passwords or access.Everybody(),
        projects=None if tokens else identity.Projects(runtime, passwords),
        scheme=scheme,
    )
    return http.Server(runtime, application)


def _check_open(options: argparse.Namespace) -> None:
    """Refuse to let everybody be the administrator who reaches this machine, unless that is said."""
    if options.neutron_auth == "none" and not (options.neutron_open or _is_loopback(options.bind)):
        raise errors.InvalidError(
            f"without authentication whoever reaches {options.bind} could change every network",
            hint="add --bind 127.0.0.1, or --neutron-open if that is meant",
        )


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
    servers = {"remote": (made, options.port)}
    tokens = None
    if options.neutron_port:
        _check_open(options)
        tokens = keystone.authenticator(runtime, folders, options)
        everybody, scheme = options.neutron_auth == "none", "http" if options.no_ssl else "https"
        made = neutron_server(runtime, folders, everybody=everybody, tokens=tokens, scheme=scheme)
        servers["Neutron"] = (made, options.neutron_port)
    try:
        tls = _tls(runtime, folders, options)
        for name, (one, port) in servers.items():
            await one.open(options.bind, port, tls=tls)
            log.info("the %s API listens on %s port %d", name, options.bind, port)
        await stop.wait()
    finally:
        for one, _ in servers.values():
            await one.close()
        if tokens:
            await tokens.close()
    log.info("gantry-rapi has stopped")


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = argparse.ArgumentParser(
        prog="gantry-rapi", description="The remote API and the Neutron API of a Gantry cluster."
    )
    parser.add_argument("-b", "--bind", default="0.0.0.0", metavar="ADDRESS", help="where to listen (default: all)")
    parser.add_argument("-p", "--port", type=program.port, default=PORT, help=f"TCP port (default: {PORT})")
    parser.add_argument("--no-ssl", action="store_true", help="plain HTTP, on a loopback address only")
    parser.add_argument(
        "--require-authentication", action="store_true", help="nobody may read without a name and a password"
    )
    parser.add_argument(
        "--neutron-port",
        type=program.port,
        default=0,
        metavar="PORT",
        help="TCP port of the Neutron API, 9696 by custom; 0: none",
    )
    parser.add_argument(
        "--neutron-auth",
        choices=("http_basic", "keystone", "none"),
        default="http_basic",
        help="who may use the Neutron API: users with a password or a token (default), those of Keystone, or everybody "
        "as administrator",
    )
    parser.add_argument("--neutron-open", action="store_true", help="everybody off this machine too")
    keystone.add_arguments(parser)
    parser.add_argument("--root", default=os.environ.get("GANTRY_ROOT", ""), help="folder that holds all of its files")
    parser.add_argument("--debug", action="store_true", help="log more")
    parser.add_argument("--version", action="version", version=f"gantry-rapi {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 0 after a signal, 1 when it cannot run."""
    options = command_line().parse_args(argv)
    return program.run("gantry-rapi", _run(real.RealRuntime(), paths.Paths.below(options.root), options))


if __name__ == "__main__":
    sys.exit(main())
