"""The admission webhook of gantry-kube: its port, and its certificate.

    --webhook-cert-dir DIR [--webhook-port PORT]

``daemons.kube`` runs it beside the controllers if a directory is given. The directory has the files of a mounted Secret
of type kubernetes.io/tls: ``tls.crt`` and ``tls.key``. Renewed files are loaded within seconds, and no connection is
lost.
"""

import argparse
import logging

from gantry import errors
from gantry.daemons import certificate_files, program
from gantry.doors import http
from gantry.kubernetes.controllers import controllers
from gantry.runtime import interface

log = logging.getLogger(__name__)

PORT = 9443


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
    folder = options.webhook_cert_dir
    try:
        files = certificate_files.CertificateFiles(runtime, lambda: (f"{folder}/tls.crt", f"{folder}/tls.key"))
    except OSError as error:
        raise errors.ConfigurationError(
            f"the certificate in {folder} cannot be used: {error}", hint="provide tls.crt and tls.key in PEM format"
        ) from None
    if not options.debug:
        logging.getLogger("gantry.access").setLevel(logging.WARNING)
    listening = http.Server(runtime, running.admission)
    await listening.open(options.bind, options.webhook_port, tls=files.context)
    log.info("admission webhook listening on port %d", options.webhook_port)
    try:
        await files.follow()
    finally:
        await listening.close()
