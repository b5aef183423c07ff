"""The HTTP front ends in a simulated cluster: the remote API and the Neutron API, on each machine, and their clients.

    doors = Doors(lab)
    await doors.start("node1")                              # the servers, as gantry-rapi runs them
    number, status = await doors.submit("node1", op, mark)  # through one of them, as the user of that name

The requests are derived from opcodes: those of the remote API from its own table of resources. Each client logs in
under its own name, which becomes the source of its jobs' reasons: so its jobs can be found in the state.
"""

import base64
import dataclasses
import random
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from urllib import parse

import msgspec

from gantry import errors
from gantry.daemons import remote
from gantry.doors.rapi import changes
from gantry.runtime import http_interface, paths, simulated
from gantry.sim.story import Violation

PORT, NEUTRON_PORT = 5080, 9696
USERS = 400
PASSWORD = "sesame"
TIMEOUT_SECONDS = 90.0
TOOL = "gantry-rapi"

ANSWERED = "a front end answers every request, and never with an error of its own"
DONE = "a front end that waits for a job answers when the job has succeeded"
CONDITION = "a front end makes no change whose precondition is not met"

STALE = '"0"'
"""An ETag that no object has ever had: versions begin with 1."""
STALE_SHARE = 0.15
"""The share of changes by the remote API that come with an ETag that is not the object's."""
VERSIONED = re.compile(r"/2/(instances|nodes|groups|networks)/")
"""Paths of objects with a version."""

READS = (
    (PORT, "/2/instances?bulk=1"),
    (PORT, "/2/networks?bulk=1"),
    (PORT, "/2/nodes?bulk=1"),
    (PORT, "/2/groups?bulk=1"),
    (PORT, "/2/info"),
    (PORT, "/2/jobs"),
    (NEUTRON_PORT, "/v2.0/networks"),
    (NEUTRON_PORT, "/v2.0/subnets"),
    (NEUTRON_PORT, "/v2.0/ports"),
    (NEUTRON_PORT, "/v2.0/network_segment_ranges"),
    (NEUTRON_PORT, "/v2.0/network-ip-availabilities"),
)


@dataclass(frozen=True)
class Request:
    """A request of a front end."""

    port: int
    method: str
    path: str
    body: object = None
    if_match: str = ""


def users_file() -> bytes:
    """Return the file of the front ends' users: one for each client."""
    lines = [f"c{number} {PASSWORD} write,role=admin" for number in range(1, USERS + 1)]
    return "".join(f"{line}\n" for line in lines).encode()


def request_for(op: Mapping[str, object]) -> Request | None:
    """Return the request that makes a front end submit an opcode; None if no front end of the simulation can."""
    op_id, fields = str(op["OP_ID"]), {name: value for name, value in op.items() if name != "OP_ID"}
    if op_id in ("OP_SEGMENT_RANGE_SET_PARAMS", "OP_SEGMENT_RANGE_REMOVE"):
        path = f"/v2.0/network_segment_ranges/{fields.pop('range')}"
        remove = op_id.endswith("REMOVE")
        body = None if remove else {"network_segment_range": fields}
        return Request(NEUTRON_PORT, "DELETE" if remove else "PUT", path, body)
    if op_id == "OP_PORT_REMOVE":
        return Request(NEUTRON_PORT, "DELETE", f"/v2.0/ports/{fields['port']}")
    change = next((each for each in changes.CHANGES if each.op == op_id and each.method != "GET"), None)
    # Two of the resources make other opcodes of one.
    if change is None or op_id in ("OP_INSTANCE_REINSTALL", "OP_INSTANCE_REPLACE_DISKS", "OP_NODE_MODIFY_STORAGE"):
        return None
    names = re.findall(r"\{(\w+)\}", change.path)
    if not fields.keys() >= set(names):
        return None
    path = change.path.format(**{name: fields.pop(name) for name in names})
    query = {}
    if not change.body:
        parameters = {field: name for name, field in change.query.items()}
        if fields.keys() - parameters.keys():
            return None
        query = {
            parameters[field]: str(int(value) if isinstance(value, bool) else value) for field, value in fields.items()
        }
        fields = {}
    if op_id == "OP_INSTANCE_CREATE":
        fields["__version__"] = 1
    return Request(PORT, change.method, path + (f"?{parse.urlencode(query)}" if query else ""), fields or None)


class Doors:
    """The front ends of all machines; ``launch`` starts a process of a machine and waits until it is ready."""

    def __init__(
        self,
        world: simulated.World,
        folders: paths.Paths,
        *,
        launch: Callable[
            [str, str, Callable[[Callable[[], None]], Coroutine[object, object, None]]], Coroutine[object, object, None]
        ],
    ) -> None:
        self.enabled = False
        self._world = world
        self._folders = folders
        self._launch = launch
        self._random: random.Random = world.source("doors")
        self._conditions: random.Random = world.source("preconditions")

    async def start(self, name: str) -> None:
        """Start the servers of a machine."""
        machine = self._world.machine(name)
        if not machine.disk.exists(self._folders.users):
            await machine.disk.write(self._folders.users, users_file())

        async def serve(ready: Callable[[], None]) -> None:
            servers = {
                PORT: remote.server(machine, self._folders),
                NEUTRON_PORT: remote.neutron_server(machine, self._folders),
            }
            for port, server in servers.items():
                await server.open("0.0.0.0", port, tls=None)
            ready()
            await self._world.loop.create_future()

        await self._launch(name, TOOL, serve)

    async def send(self, name: str, request: Request, *, user: str) -> tuple[int, bytes]:
        """Send a request to a machine from that machine; return the status and the body; OSError, TimeoutError."""
        credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        client = self._world.machine(name).network.http_client(tls=None)
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        headers = {"authorization": f"Basic {credentials}"}
        if request.if_match:
            headers["if-match"] = request.if_match
        answer: http_interface.Response = await client.request(
            request.method, name, request.port, request.path, body=body, timeout=TIMEOUT_SECONDS, headers=headers
        )
        if answer.status == 500 and b"see the log" in answer.body:
            raise Violation(ANSWERED, f"an answer of {name} to {request.method} {request.path}", str(answer.body))
        return answer.status, answer.body

    def pick(self, op: Mapping[str, object]) -> Request | None:
        """Return the request for an opcode in half of the cases in which there is one.

        The precondition of some is not met.
        """
        if not self.enabled or self._random.random() < 0.4:
            return None
        request = request_for(op)
        if request and VERSIONED.match(request.path) and self._conditions.random() < STALE_SHARE:
            return dataclasses.replace(request, if_match=STALE)
        return request

    async def read(self, name: str) -> str:
        """Read a random list; return what was read, and how it was answered."""
        port, path = self._random.choice(READS)
        status, _ = await self.send(name, Request(port, "GET", path), user="c1")
        return f"GET {path}: {status}"


def job_number(request: Request, status: int, body: bytes) -> int:
    """Return the number of the submitted job from an answer of the remote API; 0 from the Neutron API.

    Raises PrerequisiteError if the request was refused, RemoteError if it is unknown what happened.
    """
    if status >= 500:
        raise errors.RemoteError(f"{request.path} was answered with {status}: {body[:200]!r}")
    if request.port == NEUTRON_PORT:
        return 0
    if status >= 400:
        raise errors.PrerequisiteError(f"{request.path} was refused with {status}: {body[:200]!r}")
    if request.if_match:
        raise Violation(CONDITION, f"a refusal of {request.method} {request.path}, which has changed", f"{status}")
    return msgspec.json.decode(body, type=int)
