"""gantry-kube serve: the embedded API server, for sites without a Kubernetes cluster, and its controllers.

    gantry-kube serve [--data DIR] [--bind ADDRESS] [--port PORT] [--name NAME] [--no-ssl] [--no-controllers]
                      [--no-templates] [--random-order] [--cluster [SOCKET]] [--site NAME] [--debug] [--check]

The controllers are those of ``gantry-kube controllers``, in a child process; each process ends with the other. Their
requests come over a private connection (``pipe``).

All state is in one directory, which only its owner can read::

    objects.log              the objects (``store``)
    tokens                   accepted tokens: token,name on each line; created with a token for "admin"
    kubeconfig               kubeconfig of admin; rewritten at each start
    ca.pem, ca.key           the certificate authority
    server.pem, server.key   the server certificate, issued at each start for the address and the name

It listens on the loopback address by default. A crash at any time loses no acknowledged write.
"""

import argparse
import asyncio
import base64
import ipaddress
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import yaml

from gantry import errors, option_parser, security
from gantry.daemons import program
from gantry.daemons.options import limit_options
from gantry.doors import http
from gantry.kubernetes import apiserver
from gantry.kubernetes.apiserver import pipe_server
from gantry.runtime import interface, limits

log = logging.getLogger(__name__)

DATA = "/var/lib/gantry/kube"
PORT = 6443

DEFAULT_LIMITS = limits.HttpLimits(connections=800, per_peer=700, requests_per_peer=190)
"""Watches keep connections open; usually all clients are on the server's own machine."""
ADMIN = "admin"
SERVER_DAYS = 3650
CONTROLLER_USER = "gantry-kube"
"""User name of the controllers that the server starts."""

Companion = Callable[[pipe_server.Server], Awaitable[None]]
"""Runs beside the server until stopped; its requests are answered by the pipe server."""


def add(commands: "argparse._SubParsersAction[option_parser.Parser]") -> argparse.ArgumentParser:
    """Add the command to those of gantry-kube."""
    command = commands.add_parser("serve", help="run an API server with the same resources, stored in a file")
    command.add_argument(
        "--data", default=DATA, metavar="DIR", help=f"store all files in this directory (default: {DATA})"
    )
    command.add_argument(
        "-b", "--bind", default="127.0.0.1", metavar="ADDRESS", help="listen on this address (default: 127.0.0.1)"
    )
    command.add_argument(
        "-p", "--port", type=program.port, default=PORT, help=f"listen on this TCP port (default: {PORT})"
    )
    command.add_argument(
        "--name", default="", help="set the host name in certificate and kubeconfig (default: this host)"
    )
    command.add_argument("--no-ssl", action="store_true", help="serve plain HTTP, only on a loopback address")
    command.add_argument(
        "--controllers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the controllers of pools and claims too",
    )
    command.add_argument(
        "--templates", action=argparse.BooleanOptionalAction, default=True, help="render Metal3DataTemplates too"
    )
    limit_options.add_http(command, DEFAULT_LIMITS)
    command.add_argument("--debug", action="store_true", help="log debug messages and each request")
    return command


async def serve(
    runtime: interface.Runtime,
    options: argparse.Namespace,
    *,
    stop: asyncio.Event,
    companion: Companion | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until ``stop``, or until ``companion`` ends; call ``ready`` when clients can connect.

    Raises InvalidError, BusyError and ConfigurationError.
    """
    try:
        address = ipaddress.ip_address(options.bind)
    except ValueError:
        raise errors.InvalidError(f"--bind {options.bind} is not an IP address") from None
    if options.no_ssl and not address.is_loopback:
        raise errors.InvalidError(
            f"--no-ssl would send tokens unencrypted on {options.bind}", hint="add --bind 127.0.0.1"
        )
    if not options.debug:
        logging.getLogger("gantry.access").setLevel(logging.WARNING)
    await runtime.disk.make_directory(options.data, mode=0o700)
    tokens = await _tokens(runtime, options.data)
    controller_token = runtime.random.token(24).hex()
    application = apiserver.Application(runtime, options.data, tokens={**tokens, controller_token: CONTROLLER_USER})
    listening = http.Server(runtime, application, allowed=limit_options.http_limits(options))
    await application.open()
    try:
        tls = None if options.no_ssl else await _tls(runtime, options)
        await listening.open(options.bind, options.port, tls=tls)
        await runtime.disk.write(f"{options.data}/kubeconfig", _kubeconfig(runtime, options, tokens), mode=0o600)
        log.info("listening on %s port %d", options.bind, options.port)
        ready()
        if companion:
            await companion(
                pipe_server.Server(listening.answer, headers={"authorization": f"Bearer {controller_token}"})
            )
        else:
            await stop.wait()
    finally:
        await listening.close()
        await application.close()


async def _tokens(runtime: interface.Runtime, folder: str) -> Mapping[str, str]:
    """Return user names by token; ConfigurationError for an invalid line."""
    path = f"{folder}/tokens"
    if not runtime.disk.exists(path):
        await runtime.disk.write(path, f"{runtime.random.token(24).hex()},{ADMIN}\n".encode(), mode=0o600)
    out: dict[str, str] = {}
    for number, line in enumerate(runtime.disk.read(path).decode(errors="replace").splitlines(), 1):
        token, _, fields = line.strip().partition(",")
        name = fields.partition(",")[0].strip()
        if line.strip() and not (token and name):
            raise errors.ConfigurationError(f"line {number} of {path} is not 'token,name'")
        if line.strip():
            out[token] = name
    return out


async def _tls(runtime: interface.Runtime, options: argparse.Namespace) -> ssl.SSLContext:
    """Return the TLS context of the server, with a new certificate."""
    disk, folder, now = runtime.disk, options.data, runtime.clock.now()
    if not (disk.exists(f"{folder}/ca.pem") and disk.exists(f"{folder}/ca.key")):
        own = security.make_authority("kube", now)
        await disk.write(f"{folder}/ca.key", security.authority_key.store(own.key), mode=0o600)
        await disk.write(f"{folder}/ca.pem", own.certificates, mode=0o600)
    key = security.authority_key.load(disk.read(f"{folder}/ca.key"))
    authority = security.Authority(disk.read(f"{folder}/ca.pem"), key)
    name, address = options.name or runtime.host, ipaddress.ip_address(options.bind)
    server_key, request = security.make_request(name)
    host = "127.0.0.1" if address.is_unspecified else str(address)
    certificate = security.issue(
        authority,
        request,
        uuid=runtime.random.uuid(),
        name=name,
        address=host,
        now=now,
        days=SERVER_DAYS,
        is_local=True,
    )
    await disk.write(f"{folder}/server.key", server_key, mode=0o600)
    await disk.write(f"{folder}/server.pem", certificate, mode=0o600)
    return security.bootstrap_server_context(f"{folder}/server.pem", f"{folder}/server.key")


def _kubeconfig(runtime: interface.Runtime, options: argparse.Namespace, tokens: Mapping[str, str]) -> bytes:
    """Return the kubeconfig of admin."""
    address = ipaddress.ip_address(options.bind)
    host = options.name or (runtime.host if address.is_unspecified else str(address))
    host = f"[{host}]" if ":" in host else host
    cluster: dict[str, str] = {"server": f"{'http' if options.no_ssl else 'https'}://{host}:{options.port}"}
    if not options.no_ssl:
        authority = runtime.disk.read(f"{options.data}/ca.pem")
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    token = next((token for token, name in tokens.items() if name == ADMIN), "")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gantry",
        "clusters": [{"name": "gantry", "cluster": cluster}],
        "users": [{"name": ADMIN, "user": {"token": token}}],
        "contexts": [{"name": "gantry", "context": {"cluster": "gantry", "user": ADMIN, "namespace": "default"}}],
    }
    text: str = yaml.safe_dump(msgspec.to_builtins(content), sort_keys=False)
    return text.encode()
