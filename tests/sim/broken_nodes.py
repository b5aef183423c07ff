"""Nodes of a simulated cluster that answer calls wrongly, and what a cluster must still do beside them."""

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec

from gantry.runtime import http_interface
from gantry.sim import cluster

TAG = {"OP_ID": "OP_TAGS_SET", "kind": "cluster"}

Answer = Callable[[http_interface.Response], http_interface.Response]


def reports(**fields: object) -> Answer:
    """Replace fields of the true answer; a field of raw JSON may be any number."""

    def change(true_answer: http_interface.Response) -> http_interface.Response:
        ok, payload = msgspec.json.decode(true_answer.body, type=tuple[bool, object])
        if ok and isinstance(payload, dict):
            payload |= {name: value for name, value in fields.items() if name in payload}
        return http_interface.Response(true_answer.status, msgspec.json.encode((ok, payload)))

    return change


def says(body: bytes, *, status: int = 200) -> Answer:
    """Answer each call with the same bytes."""
    return lambda true_answer: http_interface.Response(status, body)


async def _endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b" " * 1000
        await asyncio.sleep(0.5)


def never_ends() -> Answer:
    """Begin an answer that has no end."""
    return lambda true_answer: http_interface.Response(200, b"[true, ", pieces=_endless())


def lie(lab: cluster.SimulatedCluster, name: str, answers: Mapping[str, Answer]) -> None:
    """Let a node's running daemon carry out calls but answer them wrongly: by procedure, ``*`` for all others."""
    lab.world.network.intercept(name, cluster.PORT, functools.partial(_in_front, answers))


def _in_front(answers: Mapping[str, Answer], handler: http_interface.Handler) -> http_interface.Handler:
    async def answer(request: http_interface.Request) -> http_interface.Response:
        true_answer = await handler(request)
        change = answers.get(request.path.removeprefix("/"), answers.get("*"))
        return change(true_answer) if change else true_answer

    return answer


def isolate(lab: cluster.SimulatedCluster, name: str, *, cut: bool = True) -> None:
    for other in lab.names:
        if other != name:
            (lab.world.network.partition if cut else lab.world.network.heal)(name, other)


def tag(*tags: str) -> cluster.Opcode:
    return {**TAG, "tags": list(tags)}


async def tags(lab: cluster.SimulatedCluster) -> list[str]:
    return msgspec.convert(await lab.luxi("QueryTags", "cluster", ""), list[str])
