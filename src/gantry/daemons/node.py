"""gantry-noded: the daemon of every node.

    gantry-noded [--bind ADDRESS] [--port 1811] [--root DIR] [--name NAME] [--debug] [--check]

The daemon stays in the foreground; an init system can run it in the background. One daemon runs per root folder.
SIGTERM and SIGINT end it; guests continue to run, and the next daemon finds them. Its options can be in
``etc/node.toml`` (``options.config_file``), which SIGHUP reads again.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

import gantry
from gantry import errors, option_parser
from gantry.daemons import health_port, invitations, logs, program, trace_option
from gantry.daemons.options import config_file, limit_options
from gantry.node.daemon import wiring
from gantry.runtime import limits, measures, paths, real
from gantry.runtime.real import systemd

logger = logging.getLogger(__name__)

PORT = 1811

DEFAULT_LIMITS = limits.HttpLimits(
    connections=800, strangers=100, per_peer=700, requests=700, requests_per_peer=700, body_bytes=256 << 20
)
"""Masters have client certificates, and make many calls at a time; only they may have more than a few connections."""


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = option_parser.Parser(prog="gantry-noded", description="The daemon of every node of a Gantry cluster.")
    parser.add_argument(
        "--bind", default="", metavar="ADDRESS", help="address to listen on (default: all, of IPv4 and IPv6)"
    )
    parser.add_argument("--port", type=program.port, default=PORT, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--root",
        default=os.environ.get("GANTRY_ROOT", ""),
        metavar="DIR",
        help="root folder of all files (default: $GANTRY_ROOT, else the system's folders)",
    )
    parser.add_argument("--name", default="", help="the node's name until it joins (default: the machine's)")
    limit_options.add_http(parser, DEFAULT_LIMITS)
    health_port.add(parser)
    trace_option.add(parser)
    parser.add_argument("--debug", action="store_true", help="log every call")
    config_file.add_check(parser)
    parser.add_argument("--version", action="version", version=f"gantry-noded {gantry.__version__}")
    return parser


CONFIGURATION = config_file.Program("gantry-noded", "node.toml", command_line)


async def _prepare(runtime: real.RealRuntime, folders: paths.Paths) -> None:
    for folder in (folders.lib, folders.log, folders.instances, folders.file_storage):
        await runtime.disk.make_directory(folder)


async def _serve(settings: config_file.Settings) -> None:
    """Run until a signal; raises EnvironmentFaultError if the daemon cannot start."""
    options = settings.options
    runtime = real.RealRuntime(options.name)
    folders = paths.Paths.below(options.root)
    await _prepare(runtime, folders)
    try:
        lock = runtime.disk.lock(f"{folders.run}/node-daemon.lock")
    except BlockingIOError:
        raise errors.EnvironmentFaultError(
            f"another gantry-noded already uses the folders of {options.root or 'the system'}", hint="stop it first"
        ) from None
    try:
        logs.configure(folders, "node-daemon", debug=options.debug)
        settings.follow(runtime.disk, lambda changed: logs.set_debug(debug=changed.debug))
        with trace_option.recorded(options, "gantry-noded", runtime.host):
            await _until_signal(runtime, folders, options)
    finally:
        lock.release()


async def _until_signal(runtime: real.RealRuntime, folders: paths.Paths, options: argparse.Namespace) -> None:
    with systemd.Service() as service:

        def ready() -> None:
            where = options.bind or "all addresses"
            logger.info("%s listens on %s port %d", runtime.host, where, options.port)
            service.ready(f"listens on {where} port {options.port}")

        counts = measures.Measures()
        agent = wiring.node(
            runtime,
            folders,
            software=gantry.__version__,
            visitors=invitations.Relay(runtime, folders),
            measures=True,
            counts=counts,
        )
        async with health_port.opened(runtime, options, counts.families, problem=agent.problem):
            serving = asyncio.ensure_future(
                agent.run(options.bind, options.port, allowed=limit_options.http_limits(options), ready=ready)
            )
            service.on_signal(serving.cancel)
            try:
                await serving
            except asyncio.CancelledError:
                logger.info("stopped; guests continue to run")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon; the exit code is 0 after a signal, 1 if it cannot run."""
    settings = config_file.load(CONFIGURATION, argv, real.RealRuntime().disk)
    return program.run("gantry-noded", _serve(settings))


if __name__ == "__main__":
    sys.exit(main())
