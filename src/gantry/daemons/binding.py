"""The cluster that pools of a Kubernetes API may be bound to: options of ``gantry-kube``, and the way to its master.

    --cluster [SOCKET] [--site NAME]

Who calls it: ``daemons.kube``. The socket is that of the cluster's master daemon on this machine, or one that is
forwarded here; its file's permissions are what opens it.
"""

import argparse
import os
import re

from gantry import errors
from gantry.kubernetes.controllers import cluster_ports
from gantry.rpc import luxi
from gantry.runtime import interface, paths

_SITE = re.compile(r"[A-Za-z0-9._-]{1,63}")


def add_arguments(made: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    made.add_argument(
        "--cluster",
        nargs="?",
        default="",
        const=paths.Paths.below(os.environ.get("GANTRY_ROOT", "")).luxi_socket,
        metavar="SOCKET",
        help="reserve the addresses of pools with the annotation gantry/network in the cluster whose master daemon has "
        "this socket (if none is named: that of this machine)",
    )
    made.add_argument(
        "--site",
        default="",
        metavar="NAME",
        help="by which name the cluster knows this API server (default: the UID of its namespace kube-system)",
    )


def ledger_of(runtime: interface.Runtime, options: argparse.Namespace) -> cluster_ports.Ledger | None:
    """Return the ledger that is asked for, None for none; InvalidError."""
    if options.site and not _SITE.fullmatch(options.site):
        raise errors.InvalidError(
            f"'{options.site}' is no name of a site", hint="use letters, digits, '.', '_' and '-'"
        )
    if not options.cluster:
        return None
    return cluster_ports.Ledger(luxi.Pool(runtime.network, options.cluster), runtime.clock, site=options.site)
