"""The port of gantry-kube for admission reviews (``kubernetes.apiserver.webhook``), and its certificate.

    --webhook-cert-dir DIR [--webhook-port PORT]

Who calls it: ``daemons.kube``, beside the controllers, if a folder is named. The folder has what a mounted Secret of
type kubernetes.io/tls has: ``tls.crt`` and ``tls.key``. Whoever renews these has them read within seconds, and no
connection is lost.
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
RENEWAL = 10.0
"""Seconds between two looks at the certificate."""


def add_arguments(made: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    made.add_argument(
        "--webhook-cert-dir",
        default="",
        metavar="DIR",
        help="answer admission reviews, with the certificate in this folder: tls.crt and tls.key",
    )
    made.add_argument(
        "--webhook-port",
        type=program.port,
        default=PORT,
        metavar="PORT",
        help=f"TCP port of the reviews (default: {PORT})",
    )


async def serve(runtime: interface.Runtime, options: argparse.Namespace, made: controllers.Controllers) -> None:
    """Answer reviews until cancelled; ConfigurationError if the certificate cannot be used."""
    folder, known = options.webhook_cert_dir, b""
    try:
        known = _pair(runtime, folder)
        tls = security.bootstrap_server_context(*_paths(folder))
    except OSError as error:
        raise errors.ConfigurationError(
            f"the certificate in {folder} cannot be used: {error}", hint="it has to have tls.crt and tls.key, in PEM"
        ) from None
    if not options.debug:
        logging.getLogger("gantry.access").setLevel(logging.WARNING)
    listening = http.Server(runtime, made.admission)
    await listening.open(options.bind, options.webhook_port, tls=tls)
    log.info("admission reviews are answered on port %d", options.webhook_port)
    try:
        while True:
            await runtime.clock.sleep(RENEWAL)
            known = _renewed(runtime, folder, tls=tls, known=known)
    finally:
        await listening.close()


def _paths(folder: str) -> tuple[str, str]:
    return f"{folder}/tls.crt", f"{folder}/tls.key"


def _pair(runtime: interface.Runtime, folder: str) -> bytes:
    return b"\n".join(runtime.disk.read(path) for path in _paths(folder))


def _renewed(runtime: interface.Runtime, folder: str, *, tls: ssl.SSLContext, known: bytes) -> bytes:
    """Use a new certificate from the next connection on; return the files that are in use."""
    try:
        found = _pair(runtime, folder)
        if found == known:
            return known
        security.renew_server_context(tls, *_paths(folder))
    except OSError as error:
        log.warning("the certificate in %s has changed and cannot be used: %s", folder, error)
        return known
    log.info("the certificate in %s has been renewed", folder)
    return found
