"""The option of a daemon that sends traces to a collector of OpenTelemetry."""

import argparse
import contextlib
from collections.abc import Iterator
from urllib import parse

from gantry import __version__, errors
from gantry.runtime import traces


def _collector(text: str) -> str:
    """Return the URL of a collector of the command line."""
    try:
        parts = parse.urlsplit(text)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_complete = False
    if text and not is_complete:
        raise argparse.ArgumentTypeError(f"{text!r} is not the URL of a collector: write it as http://HOST:4318")
    return text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the option to those of a daemon."""
    parser.add_argument(
        "--traces",
        type=_collector,
        default="",
        metavar="URL",
        help="send traces of requests to this collector, by OTLP over HTTP (default: send none)",
    )


@contextlib.contextmanager
def recorded(options: argparse.Namespace, service: str, host: str) -> Iterator[None]:
    """Record the spans of a daemon while the block runs, if the option is set; EnvironmentFaultError."""
    if not options.traces:
        yield
        return
    try:
        # Its import takes as long as that of everything else, and no other daemon needs it.
        from gantry.runtime.real import tracing
    except ImportError as error:
        raise errors.EnvironmentFaultError(
            f"--traces needs libraries that are not installed: {error}", hint="install gantry[traces]"
        ) from None
    tracer = tracing.Tracer(service, __version__, host, options.traces)
    try:
        with traces.installed(tracer):
            yield
    finally:
        tracer.close()
