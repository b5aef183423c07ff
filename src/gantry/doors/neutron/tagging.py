"""The tags of an object as resources of their own: ``/v2.0/COLLECTION/ID/tags[/TAG]``.

See contracts/neutron-api.md#tags.
"""

from collections.abc import Sequence

import msgspec

from gantry.doors.neutron import call as calls
from gantry.doors.neutron import collection as collections
from gantry.doors.neutron import faults, values
from gantry.runtime import interface

_TAG = values.text(values.TAG_LENGTH)
_TAGS = values.listed(_TAG)


async def answer(
    collection: collections.Collection, call: calls.Call, *, method: str, key: str, tag: Sequence[str]
) -> interface.HttpResponse:
    """Answer a request for all tags, or for the one in ``tag``."""
    for one in tag:
        if reason := _TAG(one):
            raise faults.invalid_input(reason)
    async with collection.changing_tags(key):
        return await _answer(collection, call, method=method, key=key, tag=tag)


async def _answer(
    collection: collections.Collection, call: calls.Call, *, method: str, key: str, tag: Sequence[str]
) -> interface.HttpResponse:
    match method, *tag:
        case ["GET"]:
            return _tags(await collection.tags(call, key))
        case ["PUT"]:
            given = _given(call)
            await collection.set_tags(call, key, given)
            return _tags(given)
        case ["POST"]:
            given = _given(call)
            await collection.set_tags(call, key, [*await collection.tags(call, key), *given])
            return _tags(given)
        case ["DELETE"]:
            await collection.set_tags(call, key, [])
            return interface.HttpResponse(204, b"")
        case ["PUT", one]:
            await collection.set_tags(call, key, [*await collection.tags(call, key), one])
            return interface.HttpResponse(201, b"")
        case ["GET" | "DELETE", one]:
            known = await collection.tags(call, key)
            if one not in known:
                raise faults.FaultError(404, "TagNotFound", f"Tag {one} could not be found.")
            if method == "DELETE":
                await collection.set_tags(call, key, [each for each in known if each != one])
            return interface.HttpResponse(204, b"")
    raise faults.no_method()


def _given(call: calls.Call) -> list[str]:
    body = call.decoded()
    if not isinstance(body, dict) or set(body) != {"tags"}:
        raise faults.bad_request("Invalid tags body")
    reason = _TAGS(body["tags"])
    if reason:
        raise faults.invalid("tags", reason)
    return msgspec.convert(body["tags"], list[str])


def _tags(tags: Sequence[str]) -> interface.HttpResponse:
    return interface.HttpResponse(200, msgspec.json.encode({"tags": tags}))
