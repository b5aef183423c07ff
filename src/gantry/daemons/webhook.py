"""The admission webhook of gantry-kube: its port, and its certificate.

    --webhook-cert-dir DIR [--webhook-port PORT]

``daemons.kube`` runs it beside the controllers if a directory is given. The directory has the files of a mounted Secret
of type kubernetes.io/tls: ``tls.crt`` and ``tls.key``. Renewed files are loaded within seconds, and no connection is
lost.
"""

import argparse
import logging
import ssl

from gantry import errors, security
from gantry.daemons import program
from gantry.doors import http
from gantry.kubernetes.controllers import controllers
from gantry.runtime import interface

log = logging.getLogger(__name__)

PORT = 9443
CHECK_SECONDS = 10.0
"""Seconds between two checks for a new certificate."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    parser.add_argument(
        "--webhook-cert-dir",
        default="",
        metavar="DIR",
        help="serve the admission webhook with tls.crt and tls.key in this directory",
    )
    parser.add_argument(
        "--webhook-port",
        type=program.port,
        default=PORT,
        metavar="PORT",
        help=f"serve the admission webhook on this TCP port (default: {PORT})",
    )


async def serve(runtime: interface.Runtime, options: argparse.Namespace, running: controllers.Controllers) -> None:
    """Answer reviews until cancelled; ConfigurationError if the certificate cannot be used."""
    folder, loaded = options.webhook_cert_dir, b""
    try:
        loaded = _read_pair(runtime, folder)
        tls = security.bootstrap_server_context(*_paths(folder))
    except OSError as error:
        raise errors.ConfigurationError(
            f"the certificate in {folder} cannot be used: {error}", hint="provide tls.crt and tls.key in PEM format"
        ) from None
    if not options.debug:
        logging.getLogger("gantry.access").setLevel(logging.WARNING)
    listening = http.Server(runtime, running.admission)
    await listening.open(options.bind, options.webhook_port, tls=tls)
    log.info("admission webhook listening on port %d", options.webhook_port)
    try:
        while True:
            await runtime.clock.sleep(CHECK_SECONDS)
            loaded = _reload(runtime, folder, tls=tls, loaded=loaded)
    finally:
        await listening.close()


def _paths(folder: str) -> tuple[str, str]:
    return f"{folder}/tls.crt", f"{folder}/tls.key"


def _read_pair(runtime: interface.Runtime, folder: str) -> bytes:
    return b"\n".join(runtime.disk.read(path) for path in _paths(folder))


def _reload(runtime: interface.Runtime, folder: str, *, tls: ssl.SSLContext, loaded: bytes) -> bytes:
    """Load a changed certificate for new connections; return the content of the files in use."""
    try:
        content = _read_pair(runtime, folder)
        if content == loaded:
            return loaded
        security.renew_server_context(tls, *_paths(folder))
    except OSError as error:
        log.warning("the new certificate in %s cannot be used: %s", folder, error)
        return loaded
    log.info("loaded a new certificate from %s", folder)
    return content
