"""The Gantry cluster to whose networks IPPools can be bound: options of ``gantry-kube``.

    --cluster [SOCKET] [--site NAME]

``daemons.kube`` calls it. The socket is that of the cluster's master daemon on this machine, or one forwarded from
another machine; the permissions of the socket file are the only access control.
"""

import argparse
import os
import re

from gantry import errors
from gantry.kubernetes.controllers import cluster_ports
from gantry.rpc import luxi
from gantry.runtime import interface, paths

_SITE = re.compile(r"[A-Za-z0-9._-]{1,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--cluster`` to the options of a command: the master socket of the cluster with the bound networks."""
    parser.add_argument(
        "--cluster",
        nargs="?",
        default="",
        const=paths.Paths.below(os.environ.get("GANTRY_ROOT", "")).luxi_socket,
        metavar="SOCKET",
        help="reserve addresses of pools with the annotation gantry/network in the Gantry cluster with this master "
        "socket (default SOCKET: that of this machine)",
    )
    parser.add_argument(
        "--site",
        default="",
        metavar="NAME",
        help="set the name of this API server in the cluster (default: the UID of its namespace kube-system)",
    )


def ledger_of(runtime: interface.Runtime, options: argparse.Namespace) -> cluster_ports.ClusterPorts | None:
    """Return the port client of the configured cluster, None without one; InvalidError."""
    if options.site and not _SITE.fullmatch(options.site):
        raise errors.InvalidError(
            f"'{options.site}' is not a valid site name", hint="use up to 63 letters, digits, '.', '_' and '-'"
        )
    if not options.cluster:
        return None
    return cluster_ports.ClusterPorts(luxi.Pool(runtime.network, options.cluster), runtime.clock, site=options.site)
