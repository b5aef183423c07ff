"""The remote API under hostile requests: no 500, no traceback, memory back to where it was."""

import contextlib
import functools
from collections.abc import Iterator

from tests.doors.test_rapi import TEXT, USERS
from tests.fuzz import doors, hostile, http

from gantry.daemons import remote
from gantry.doors.rapi import openapi
from gantry.runtime import http_interface
from gantry.sim import cluster

KNOWN = (
    "node1",
    "vm1",
    "net1",
    "default",
    "1",
    "2",
    "cluster",
    "instance",
    "node",
    "name",
    "name,tags",
    "192.0.2.0/24",
    "0",
    "tag1",
)
NAMES = {
    "instances": ("vm1", "vm2"),
    "nodes": ("node1",),
    "networks": ("net1", "net2"),
    "groups": ("default", "group2"),
    "jobs": ("1", "2", "9999"),
    "query": ("instance", "node", "network", "group", "job", "port", "subnet", "segmentrange", "lock", "export", "os"),
}
FITTING = {
    "instance_name": ("vm1", "vm2"),
    "name": ("vm2", "net2", "group2"),
    "network_name": ("net1", "net2"),
    "group_name": ("default", "group2"),
    "disk_template": ("diskless", "file", "plain", "drbd"),
    "network": ("198.51.100.0/24", "net1"),
    "__version__": (1,),
    "pnode": ("node1",),
    "gateway": ("198.51.100.1",),
    "nodes": (["node1"],),
    "fields": (["name"], ["name", "tags"], ["id", "status", "ops"]),
    "qfilter": (["=", "name", "vm1"], ["|", ["=~", "name", "a.*"], ["?", "tags"]], ["!", ["=[]", "tags", "x"]]),
}
HEADERS = ("accept", "content-type", "authorization", "if-match", "if-none-match", "user-agent", "referer", "host")
LOGINS: tuple[dict[str, str], ...] = (
    {},
    http.basic("bob:two"),
    http.basic("bob:two"),
    http.basic("bob:two"),
    http.basic("carol:three"),
)


OBJECTS = (
    {"OP_ID": "OP_NETWORK_ADD", "network_name": "net1", "network": "192.0.2.0/24"},
    {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "vm1", "disk_template": "diskless", "start": False},
)


async def restore(lab: cluster.SimulatedCluster) -> dict[str, str]:
    """Create a network and an instance where there is none, and archive jobs that have ended."""
    for op in OBJECTS:
        await lab.wait(await lab.submit(op))
    await lab.luxi("AutoArchiveJobs", -1, 10)
    return {}


@contextlib.contextmanager
def start() -> Iterator[tuple[http.Door, doors.Run]]:
    with cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        lab.run(lab.build())
        lab.run(lab.master.disk.write(USERS, TEXT.encode()))
        description = openapi.document()
        components = description["components"]
        assert isinstance(components, dict)
        yield (
            http.Door(
                "rapi",
                remote.server(lab.master, cluster.FOLDERS),
                http.operations(description),
                hostile.Schemas(components["schemas"], KNOWN, fitting=FITTING),
                LOGINS,
                HEADERS,
                http_interface.Request("GET", "/2/info", b"", dict(LOGINS[1])),
                NAMES,
                functools.partial(restore, lab),
            ),
            lab.run,
        )


def test_hostile_requests_are_refused_without_an_error_of_the_server() -> None:
    doors.check("remote API", start)
