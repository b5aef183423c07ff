"""gantry-kube: the controllers of IPPools and IP claims, and an embedded API server.

    gantry-kube controllers [--kubeconfig FILE] [--context NAME] [--namespace NAME] [--watch-filter VALUE]
                            [--no-leader-elect] [--lease-namespace NAME] [--templates] [--random-order]
                            [--enable-bmh-name-based-preallocation] [--qps N] [--burst N]
                            [--cluster [SOCKET]] [--site NAME] [--concurrency N] [--bind ADDRESS]
                            [--health-port PORT] [--webhook-cert-dir DIR] [--webhook-port PORT]
                            [--run-folder DIR] [--attended] [--debug] [--check]
    gantry-kube serve       see daemons.apiserver

``controllers`` works with any API server that has the definitions in ``deploy/kubernetes/crd``, or those of Metal3. It
connects by a kubeconfig, or from inside a pod. It has no state of its own, so it may be started, stopped and killed at
any time. Of several instances only the leader works (``election``). It logs to standard error. The options of both
commands can be in ``etc/kube.toml`` (``options.config_file``), in the tables [controllers] and [serve]; SIGHUP reads it
again.
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence

from gantry import __version__, errors, option_parser
from gantry.daemons import apiserver, binding, logs, program, webhook
from gantry.daemons.options import config_file
from gantry.doors.http import probes
from gantry.kubernetes.api import pipe
from gantry.kubernetes.apiserver import pipe_server as channel_server
from gantry.kubernetes.controllers import client, controllers, election, kubeconfig, metrics, rate_limit, reflector
from gantry.runtime import interface, real
from gantry.runtime.real import systemd

log = logging.getLogger(__name__)

HOST_NAMES_OPTION = "--enable-bmh-name-based-preallocation"
HEALTH_PORT = 9440
QPS = 500.0
BURST = 1000
BODY_LIMIT = 1 << 16
UNLIMITED_QPS = 999_999
"""Requests per second of controllers started by ``gantry-kube serve``: no limit."""
LOCAL_CONCURRENCY = 512
"""Claims that these controllers process at a time: concurrent changes share an fsync."""
GC_THRESHOLDS = (100_000, 20, 100)
"""Arguments of ``gc.set_threshold``: rare collections, for there are many live objects and few garbage cycles."""
LEASE_QPS = 10.0
"""Requests per second for the lease, separate from others, so that renewals never wait."""


def _access(runtime: interface.Runtime, options: argparse.Namespace) -> kubeconfig.Access:
    path = options.kubeconfig or os.environ.get("KUBECONFIG", "")
    if path:
        return kubeconfig.from_kubeconfig(runtime, path, context=options.context)
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    return kubeconfig.in_cluster(runtime, host=host, port=port)


async def control(
    runtime: interface.Runtime,
    target: kubeconfig.Access,
    *,
    options: argparse.Namespace,
    stop: asyncio.Event,
    connection: pipe.Pipe | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the controllers of an API server until ``stop``, then release the lease; call ``ready`` when they run.

    ``connection`` is the pipe to an API server that has started this process; the process ends with it.
    """
    counts = metrics.Metrics()
    tls = None if connection else await kubeconfig.tls(runtime, target, folder=options.run_folder)
    limit = rate_limit.RateLimit(runtime.clock, per_second=options.qps, burst=options.burst)
    server = client.Client(runtime, target, tls=tls, http=connection, limit=limit, counts=counts)
    lease_limit = rate_limit.RateLimit(runtime.clock, per_second=LEASE_QPS, burst=int(LEASE_QPS))
    leases = client.Client(runtime, target, tls=tls, http=connection, limit=lease_limit, counts=counts)
    scope = reflector.Scope(namespace=options.namespace, watch_filter=options.watch_filter)
    running = controllers.Controllers(
        runtime,
        server,
        scope=scope,
        counts=counts,
        concurrency=options.concurrency,
        with_templates=options.templates,
        named_by_host=options.enable_bmh_name_based_preallocation,
        random_order=options.random_order,
        cluster=binding.ledger_of(runtime, options),
    )
    namespace = options.lease_namespace or target.namespace
    # A server starts a single process, so a lease with this identity was held by our predecessor, which is dead.
    identity = f"{runtime.host}_serve" if connection else ""
    candidate = election.Election(runtime, leases, namespace=namespace, identity=identity, counts=counts)
    health = probes.Probes(counts.collect, problem=lambda: "" if running.is_ready else "not all kinds are listed yet")
    health_server = None
    if options.health_port:
        health_server = await runtime.network.serve_http(
            options.bind, options.health_port, health, tls=None, body_limit=BODY_LIMIT
        )
    work = [running.run(), candidate.run(running.lead) if options.leader_elect else running.lead()]
    if connection:
        work.append(connection.ended())
    if options.webhook_cert_dir:
        work.append(webhook.serve(runtime, options, running))
    ready()
    try:
        await _until(stop, *work)
    finally:
        if health_server:
            await health_server.close()
        await server.close()
        await leases.close()


async def _until(stop: asyncio.Event, *work: Coroutine[object, object, None]) -> None:
    """Run work until ``stop``, or until some of it fails."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.wait({*tasks, stopping})
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _controllers_command(runtime: interface.Runtime, options: argparse.Namespace) -> None:
    if options.attended:
        target = kubeconfig.Access(host="gantry-kube serve", port=0)
        way = pipe.Pipe(*await runtime.network.stdin_connection(limit=pipe.MAX_PIECE_BYTES))
    else:
        target, way = _access(runtime, options), None
        log.info("the API server is %s port %d", target.host, target.port)
    with systemd.Service() as service:
        await control(
            runtime,
            target,
            options=options,
            stop=_stop_event(service),
            connection=way,
            ready=lambda: service.ready(f"controllers of the API server {target.host} port {target.port}"),
        )


async def _run_controllers(
    runtime: interface.Runtime, options: argparse.Namespace, requests: channel_server.Server
) -> None:
    """Run the controller process of an API server; ExecutionError when it exits."""
    code = await runtime.processes.run_connected(_controller_command(options), requests.serve)
    raise errors.ExecutionError(f"the controllers have exited with code {code}", hint="see the log above")


def _controller_command(options: argparse.Namespace) -> list[str]:
    """Return the command line of the controllers that the embedded API server starts."""
    # Packages add a private path to Python in the program itself, so the module alone is not enough.
    command = [sys.executable, "-P", sys.argv[0], "controllers", "--attended", "--health-port=0"]
    command += [f"--qps={UNLIMITED_QPS}", f"--concurrency={LOCAL_CONCURRENCY}"]
    flags = {
        "--templates": options.templates,
        HOST_NAMES_OPTION: options.enable_bmh_name_based_preallocation,
        "--random-order": options.random_order,
        "--debug": options.debug,
    }
    values = {"--cluster": options.cluster, "--site": options.site}
    command += [flag for flag, is_set in flags.items() if is_set]
    return command + [f"{option}={value}" for option, value in values.items() if value]


async def _serve_command(runtime: interface.Runtime, options: argparse.Namespace) -> None:
    with systemd.Service() as service:
        stop = _stop_event(service)

        async def beside(requests: channel_server.Server) -> None:
            await _until(stop, _run_controllers(runtime, options, requests))

        await apiserver.serve(
            runtime,
            options,
            stop=stop,
            companion=beside if options.controllers else None,
            ready=lambda: service.ready(f"API server on {options.bind} port {options.port}"),
        )


def _stop_event(service: systemd.Service) -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    service.on_signal(stop.set)
    return stop


def _add_controllers(commands: "argparse._SubParsersAction[option_parser.Parser]") -> None:
    command = commands.add_parser("controllers", help="run the controllers of pools and claims for an API server")
    command.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="connect by this kubeconfig (default: $KUBECONFIG, else the pod's)",
    )
    command.add_argument(
        "--context", default="", metavar="NAME", help="use this context of the kubeconfig (default: the current one)"
    )
    command.add_argument("--namespace", default="", metavar="NAME", help="watch this namespace only (default: all)")
    command.add_argument(
        "--watch-filter",
        default="",
        metavar="VALUE",
        help="reconcile only objects with the label cluster.x-k8s.io/watch-filter=VALUE",
    )
    command.add_argument(
        "--leader-elect", action=argparse.BooleanOptionalAction, default=True, help="work only while holding the lease"
    )
    command.add_argument(
        "--lease-namespace",
        default="",
        metavar="NAME",
        help="use a lease in this namespace (default: that of the kubeconfig or of the pod)",
    )
    command.add_argument(
        "--templates", action="store_true", help="render Metal3DataTemplates too; only where Metal3's provider does not"
    )
    _add_address_choice(command)
    binding.add_arguments(command)
    command.add_argument(
        "--qps", type=_positive, default=QPS, metavar="N", help=f"limit requests per second (default: {QPS:g})"
    )
    command.add_argument(
        "--burst",
        type=_count,
        default=BURST,
        metavar="N",
        help=f"allow N requests at once after a pause (default: {BURST})",
    )
    command.add_argument(
        "--concurrency",
        type=_count,
        default=controllers.CONCURRENCY,
        metavar="N",
        help=f"process N claims at a time (default: {controllers.CONCURRENCY})",
    )
    command.add_argument(
        "--bind",
        default="",
        metavar="ADDRESS",
        help="listen on this address for probes and admission reviews (default: all, of IPv4 and IPv6)",
    )
    command.add_argument(
        "--health-port",
        type=program.port,
        default=HEALTH_PORT,
        metavar="PORT",
        help=f"serve /healthz, /readyz and /metrics on this TCP port, 0: none (default: {HEALTH_PORT})",
    )
    webhook.add_arguments(command)
    command.add_argument(
        "--run-folder",
        default=_run_folder(),
        metavar="DIR",
        help="write an inline client key to this directory while it is loaded (default: %(default)s)",
    )
    command.add_argument(
        "--attended", action="store_true", help="use standard input as connection; set by gantry-kube serve"
    )
    command.add_argument("--debug", action="store_true", help="log debug messages")
    config_file.add_check(command)
    command.set_defaults(run=_controllers_command)


def _add_serve(commands: "argparse._SubParsersAction[option_parser.Parser]") -> None:
    command = apiserver.add(commands)
    _add_address_choice(command)
    binding.add_arguments(command)
    config_file.add_check(command)
    command.set_defaults(run=_serve_command)


def _add_address_choice(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--random-order",
        action="store_true",
        help="draw the addresses of all pools at random, also of those with allocationStrategy sequential, which API "
        "servers fill in; not of ranges without an end",
    )
    command.add_argument(
        HOST_NAMES_OPTION,
        "--enableBMHNameBasedPreallocation",
        action="store_true",
        help="name the IP claims of a Metal3DataTemplate BAREMETALHOST-POOL instead of METAL3DATA-POOL, so that the "
        "preAllocations of a pool give a host the same address again",
    )


def _run_folder() -> str:
    """Return a directory that only this user can read and write."""
    runtime_folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return f"{runtime_folder}/gantry" if runtime_folder else "/run/gantry"


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1_000_000:
        raise ValueError("must be above 0 and below 1000000")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 < value < 1_000_000:
        raise ValueError("must be above 0 and below 1000000")
    return value


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = option_parser.Parser(
        prog="gantry-kube", description="Run IPAM for the Kubernetes API: IPPools and IPClaims."
    )
    parser.add_argument("--version", action="version", version=f"gantry-kube {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_controllers(commands)
    _add_serve(commands)
    return parser


CONFIGURATION = config_file.Program("gantry-kube", "kube.toml", command_line, excluded=frozenset({"attended"}))


def _set_debug(options: argparse.Namespace) -> None:
    logs.set_debug(debug=options.debug)
    logging.getLogger("gantry.access").setLevel(logging.NOTSET if options.debug else logging.WARNING)


async def _run(runtime: interface.Runtime, settings: config_file.Settings) -> None:
    settings.follow(runtime.disk, _set_debug)
    run: Callable[[interface.Runtime, argparse.Namespace], Coroutine[object, object, None]] = settings.options.run
    await run(runtime, settings.options)


def _uses_file(options: argparse.Namespace) -> bool:
    """Return whether the options can be in the file: the controllers of ``serve`` get theirs from it."""
    return not getattr(options, "attended", False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 0 after a signal, 1 after an error."""
    runtime = real.RealRuntime()
    settings = config_file.load(CONFIGURATION, argv, runtime.disk, uses_file=_uses_file)
    logs.configure_screen(debug=settings.options.debug)
    gc.set_threshold(*GC_THRESHOLDS)
    return program.run("gantry-kube", _run(runtime, settings))


if __name__ == "__main__":
    sys.exit(main())
