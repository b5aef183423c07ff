"""gantry-rapi: the HTTP front ends, in a process on the master node that talks to the master daemon by LUXI.

    gantry-rapi [--bind ADDRESS] [--port PORT] [--no-ssl] [--no-require-authentication] [--no-console] [--root DIR]
                [--neutron-port PORT] [--neutron-auth http_basic|keystone|none] [--neutron-open]
                [--keystone-url URL ...] [--oidc-issuer URL ...] [--debug] [--check]

The remote API (contracts/remote-api.md#design), with /metrics beside it, is always served, the console
(``doors.console``) unless ``--no-console``, the Neutron API only with ``--neutron-port``. It also sends events to the
receivers of webhooks (``doors.webhooks``). The process has no state but the sessions of people in a browser: it may
start and stop at any time, and does not wait for the master daemon. Its TLS certificate and key are in
``lib/rapi.pem``; without that file it uses those that the master daemon issues for it (``remote_files``) or those of
the machine's node. Renewed files are loaded within seconds. Its logs are ``log/rapi-daemon.log`` and
``log/rapi-access.log``, its users are in ``lib/users``. Its options can be in ``etc/api.toml``
(``options.config_file``), which SIGHUP reads again.
"""

import argparse
import asyncio
import functools
import ipaddress
import logging
import os
import sys
from collections.abc import Sequence

from gantry import __version__, errors, option_parser
from gantry.daemons import certificate_files, keystone, logs, oidc, program, trace_option
from gantry.daemons.options import config_file, limit_options
from gantry.doors import console, http, neutron, rapi, webhooks
from gantry.doors.http import sessions, tokens, users
from gantry.doors.neutron import access, identity
from gantry.doors.rapi import rights, wire
from gantry.rpc import luxi
from gantry.runtime import interface, limits, measures, paths, real
from gantry.runtime.real import systemd

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
"""The address to listen on, unless ``--bind`` names another one: nobody reaches a cluster that was not opened."""
PORT = 5080

WAITING_CONNECTIONS = 30
"""How many requests of the remote API wait at the master at a time, for changes of jobs that pages show."""

WEBHOOK_CONNECTIONS = 8
"""How many requests to the master webhooks make at a time; one of them waits for news."""

DEFAULT_LIMITS = limits.HttpLimits()
"""For each of the two APIs; they make as many calls to the master as they have requests in work."""


def server(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    anonymous: bool = False,
    with_tls: bool = True,
    with_console: bool = True,
    provider: oidc.SiteProvider | None = None,
    allowed: limits.HttpLimits | None = None,
    counts: measures.Measures | None = None,
) -> http.Server:
    """Wire the remote API of a master, and the console beside it.

    ``anonymous`` allows requests without a user to read public resources; users of ``provider`` can log in to the
    console. Its metrics have what ``counts`` has.
    """
    known = users.Users(runtime, folders.users)
    # The master decides by the rights of the user of each request, whom these pools name.
    master = luxi.Pool(runtime.network, folders.luxi_socket, remote=True, naming=True)
    waiting = luxi.Pool(runtime.network, folders.luxi_socket, remote=True, naming=True, connections=WAITING_CONNECTIONS)
    begun = sessions.Sessions(runtime, known, secure=with_tls)
    gate = wire.Gate(
        known,
        begun,
        tokens.Tokens(runtime, known, functools.partial(rights.prove, master)),
        anonymous=anonymous,
        sign_on=provider.sign_on(runtime, begun, secure=with_tls) if provider else None,
    )
    remote = rapi.Application(runtime, master, waiting=waiting, gate=gate, folders=folders, counts=counts)
    application = console.Application(remote) if with_console else remote
    return http.Server(runtime, application, allowed=allowed, counts=counts, api="remote")


def neutron_server(
    runtime: interface.Runtime,
    folders: paths.Paths,
    *,
    everybody: bool = False,
    tokens: access.Authenticator | None = None,
    scheme: str = "https",
    allowed: limits.HttpLimits | None = None,
    counts: measures.Measures | None = None,
) -> http.Server:
    """Wire the Neutron API of a master.

    With ``everybody`` each client is an administrator; with ``tokens`` a client needs a token of that service;
    otherwise the users of the file log in. With ``tokens`` that service has the projects too.
    """
    passwords = None if everybody or tokens else access.Passwords(runtime, users.Users(runtime, folders.users))
    application = neutron.Application(
        runtime,
        luxi.Pool(runtime.network, folders.luxi_socket, remote=True),
        authenticator=tokens or passwords or access.Everybody(),
        projects=None if tokens else identity.Projects(runtime, passwords),
        scheme=scheme,
    )
    return http.Server(runtime, application, allowed=allowed, counts=counts, api="neutron")


def sender(
    runtime: interface.Runtime, folders: paths.Paths, *, counts: measures.Measures | None = None
) -> webhooks.Webhooks:
    """Wire the webhooks of a master; they run on the machine that has its socket, and rest on all others."""
    master = luxi.Pool(runtime.network, folders.luxi_socket, remote=True, connections=WEBHOOK_CONNECTIONS)
    return webhooks.Webhooks(runtime, master, counts=counts or measures.Measures())


def _check_open(options: argparse.Namespace) -> None:
    """Refuse to make every client in the network an administrator, unless ``--neutron-open`` allows it."""
    if options.neutron_auth == "none" and not (options.neutron_open or _is_loopback(options.bind)):
        raise errors.InvalidError(
            f"without authentication every client that reaches {options.bind} could change every network",
            hint="add --bind 127.0.0.1, or --neutron-open to allow that",
        )


def _certificate(
    runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace
) -> certificate_files.CertificateFiles | None:
    """Return the certificate of the server; None without TLS, which only a loopback address allows."""
    if options.no_ssl:
        if not _is_loopback(options.bind):
            raise errors.InvalidError(
                f"without TLS clients would send passwords unencrypted to {options.bind}", hint="add --bind 127.0.0.1"
            )
        return None
    of_node = f"{folders.certificates}/node.pem", f"{folders.certificates}/node.key"

    def files() -> tuple[str, str]:
        for path in (folders.remote_certificate, folders.issued_remote_certificate):
            if runtime.disk.exists(path):
                return path, path
        return of_node

    try:
        return certificate_files.CertificateFiles(runtime, files)
    except OSError as error:
        raise errors.ConfigurationError(
            f"the certificate {files()[0]} cannot be used: {error}",
            hint="check that this machine belongs to a cluster",
        ) from None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


async def _run(runtime: interface.Runtime, folders: paths.Paths, settings: config_file.Settings) -> None:
    options = settings.options
    for folder in (folders.lib, folders.run, folders.log):
        await runtime.disk.make_directory(folder)
    logs.configure(folders, "rapi-daemon", debug=options.debug)
    logs.configure_access(folders, "rapi-access")
    settings.follow(runtime.disk, lambda changed: logs.set_debug(debug=changed.debug))
    with systemd.Service() as service, trace_option.recorded(options, "gantry-rapi", runtime.host):
        await _serve(runtime, folders, options, service=service)
    log.info("gantry-rapi has stopped")


async def _serve(
    runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace, *, service: systemd.Service
) -> None:
    stop = asyncio.Event()
    service.on_signal(stop.set)
    allowed = limit_options.http_limits(options)
    counts = measures.Measures()
    provider = oidc.provider(runtime, folders, options)
    remote_server = server(
        runtime,
        folders,
        anonymous=not options.require_authentication,
        with_tls=not options.no_ssl,
        with_console=options.console,
        provider=provider,
        allowed=allowed,
        counts=counts,
    )
    servers = {"remote": (remote_server, options.port)}
    tokens = None
    if options.neutron_port:
        _check_open(options)
        tokens = keystone.authenticator(runtime, folders, options)
        everybody, scheme = options.neutron_auth == "none", "http" if options.no_ssl else "https"
        networking = neutron_server(
            runtime, folders, everybody=everybody, tokens=tokens, scheme=scheme, allowed=allowed, counts=counts
        )
        servers["Neutron"] = (networking, options.neutron_port)
    following = [asyncio.create_task(sender(runtime, folders, counts=counts).run())]
    try:
        certificate = _certificate(runtime, folders, options)
        tls = certificate.context if certificate else None
        if certificate:
            following.append(asyncio.create_task(certificate.follow()))
        for name, (http_server, port) in servers.items():
            await http_server.open(options.bind, port, tls=tls)
            log.info("the %s API listens on %s port %d", name, options.bind, port)
            text = f"gantry-rapi: the {name} API listens on {options.bind} port {port}"
            print(text, file=sys.stderr, flush=True)
        service.ready(f"serves the {' and the '.join(servers)} API on {options.bind}")
        await stop.wait()
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        for http_server, _ in servers.values():
            await http_server.close()
        for client in (tokens, provider):
            if client:
                await client.close()


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is generated from it too."""
    parser = option_parser.Parser(
        prog="gantry-rapi", description="The remote API and the Neutron API of a Gantry cluster."
    )
    parser.add_argument(
        "-b",
        "--bind",
        default=ADDRESS,
        metavar="ADDRESS",
        help=f"listen on this address (default: {ADDRESS}); 0.0.0.0 listens on all",
    )
    parser.add_argument(
        "-p", "--port", type=program.port, default=PORT, help=f"set the TCP port of the remote API (default: {PORT})"
    )
    parser.add_argument("--no-ssl", action="store_true", help="serve plain HTTP, on a loopback address only")
    parser.add_argument(
        "--require-authentication",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="require a user name and a password for reading too (default), or let everybody read",
    )
    parser.add_argument(
        "--console",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="serve the console for browsers at /console/ too (default)",
    )
    parser.add_argument(
        "--neutron-port",
        type=program.port,
        default=0,
        metavar="PORT",
        help="serve the Neutron API on this TCP port, usually 9696; 0: do not serve it",
    )
    parser.add_argument(
        "--neutron-auth",
        choices=("http_basic", "keystone", "none"),
        default="http_basic",
        help="set who may use the Neutron API: users with a password or a token (default), users of Keystone, or every "
        "client as administrator",
    )
    parser.add_argument(
        "--neutron-open", action="store_true", help="allow --neutron-auth none on an address that other machines reach"
    )
    keystone.add_arguments(parser)
    oidc.add_arguments(parser)
    limit_options.add_http(parser, DEFAULT_LIMITS)
    trace_option.add(parser)
    parser.add_argument(
        "--root", default=os.environ.get("GANTRY_ROOT", ""), help="set the folder that contains all of its files"
    )
    parser.add_argument("--debug", action="store_true", help="log debug messages")
    config_file.add_check(parser)
    parser.add_argument("--version", action="version", version=f"gantry-rapi {__version__}")
    return parser


CONFIGURATION = config_file.Program("gantry-rapi", "api.toml", command_line)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return the exit code: 0 after a signal, 1 if it cannot run."""
    runtime = real.RealRuntime()
    settings = config_file.load(CONFIGURATION, argv, runtime.disk)
    return program.run("gantry-rapi", _run(runtime, paths.Paths.below(settings.options.root), settings))


if __name__ == "__main__":
    sys.exit(main())
