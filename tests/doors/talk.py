"""Sends bytes to the socket of a simulated master, and reads complete answers."""

import asyncio
import json

import msgspec

from gantry.sim import cluster

ETX = b"\x03"
LIMIT = 100_000
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
LONG = {"OP_ID": "OP_TEST_DELAY", "duration": 50}


METHODS: dict[str, tuple[object, ...]] = {
    "SubmitJob": ([DELAY],),
    "SubmitManyJobs": ([[DELAY], [DELAY]],),
    "SubmitJobToDrainedQueue": ([DELAY],),
    "RunJob": ([DELAY], 10),
    "WaitForJobChange": ("job", ["status"], None, None, 1),
    "QueryJobs": (["job"], ["id", "status"]),
    "CancelJob": ("job",),
    "ArchiveJob": ("job",),
    "AutoArchiveJobs": (-1, 10),
    "ChangeJobPriority": ("job", 5),
    "SetDrainFlag": (False,),
    "Query": ("node", ["name"], None),
    "QueryFields": ("node", ["name"]),
    "QueryNodes": ([], ["name"], False),
    "QueryInstances": (["vm1"], ["name"], False),
    "QueryGroups": ([], ["name"], False),
    "QueryNetworks": ([], ["name"], False),
    "QueryExports": ([], False),
    "QueryConfigValues": (["cluster_name"],),
    "QueryClusterInfo": (),
    "ReadOpcode": ({"OP_ID": "OP_TAGS_SEARCH", "pattern": "x"},),
    "QueryTags": ("cluster", ""),
    "QuerySimilarNames": ("instance", "vn1"),
    "QueryNetworkHistory": ("net1", None, None, 10),
    "QueryAddress": ("192.0.2.0/24", None, False, 10),
    "QueryHistory": ("instance", "vm1", None, None, 10),
    "QueryAudit": ({"user": "alice", "object": "vm1", "limit": 10},),
    "WaitForEvents": (0, 10, 1),
    "ExportConfig": (),
    "SetWatcherPause": (None,),
    "ChangePackages": ("check", ["node1"], "1.1", 0),
    "OpenConsole": ("vm1", "serial", "alice"),
    "CheckConsole": ("vm1",),
    "QueryPackages": (),
    "QueryMeasures": (),
    "QueryUsage": (),
    "QueryUsageHistory": ("node", "node1", 0),
    "UseInvitation": ("secret", "token", "node9", "192.0.2.9"),
    "ProveInvitation": ("id", "nonce", "key"),
    "ExplainAccess": (["user:bob"], "cluster"),
    "QueryOwnAccess": (),
    "ProveToken": ("0000000000", "0" * 64),
    "ReadWebhooks": (),
    "ReadWebhookSecret": ("hook",),
    "StoreWebhookPositions": ([["0" * 8, 5, "", None]],),
}
"""Valid arguments for each method; ``job`` stands for a job number."""


async def conversation(lab: cluster.SimulatedCluster, *pieces: bytes) -> list[dict[str, object]]:
    """Send bytes piece by piece, then read all answers; the end of the connection is an answer None."""
    reader, writer = await lab.master.network.connect_unix(cluster.FOLDERS.luxi_socket, limit=1 << 24)
    answers: list[dict[str, object]] = []
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        while True:
            async with asyncio.timeout(100):
                answers.append(json.loads((await reader.readuntil(ETX))[:-1]))
    except asyncio.IncompleteReadError:
        answers.append({"success": None, "result": "end"})
    except TimeoutError:
        pass
    finally:
        writer.close()
    return answers


def ask(lab: cluster.SimulatedCluster, *pieces: bytes) -> list[dict[str, object]]:
    answers = lab.run(conversation(lab, *pieces))
    assert all(set(answer) == {"success", "result"} for answer in answers)
    return answers


def request(method: object, *arguments: object) -> bytes:
    return json.dumps({"method": method, "args": arguments}).encode() + ETX


def failure(lab: cluster.SimulatedCluster, method: str, *arguments: object) -> tuple[str, str]:
    """Return class and first argument of the error that a call is answered with."""
    (answer,) = ask(lab, request(method, *arguments))
    assert answer["success"] is False
    name, details = msgspec.convert(answer["result"], tuple[str, list[object]])
    return name, str(details[0])
