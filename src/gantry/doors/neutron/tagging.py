"""The tags of an object as separate resources: ``/v2.0/COLLECTION/ID/tags[/TAG]``.

See contracts/neutron-api.md#tags.
"""

from collections.abc import Sequence

import msgspec

from gantry.doors.neutron import call as calls
from gantry.doors.neutron import collection as collections
from gantry.doors.neutron import faults, values
from gantry.runtime import http_interface

_TAG = values.text(values.TAG_LENGTH)
_TAGS = values.list_of(_TAG)


async def answer(
    collection: collections.Collection, call: calls.Call, *, method: str, key: str, tag: Sequence[str]
) -> http_interface.Response:
    """Answer a request for all tags, or for the tag in ``tag``."""
    for name in tag:
        if reason := _TAG(name):
            raise faults.invalid_input(reason)
    async with collection.tag_lock(key):
        return await _answer(collection, call, method=method, key=key, tag=tag)


async def _answer(
    collection: collections.Collection, call: calls.Call, *, method: str, key: str, tag: Sequence[str]
) -> http_interface.Response:
    match method, *tag:
        case ["GET"]:
            return _tags(await collection.tags(call, key))
        case ["PUT"]:
            names = _read_body(call)
            await collection.set_tags(call, key, names)
            return _tags(names)
        case ["POST"]:
            names = _read_body(call)
            await collection.set_tags(call, key, [*await collection.tags(call, key), *names])
            return _tags(names)
        case ["DELETE"]:
            await collection.set_tags(call, key, [])
            return http_interface.Response(204, b"")
        case ["PUT", name]:
            await collection.set_tags(call, key, [*await collection.tags(call, key), name])
            return http_interface.Response(201, b"")
        case ["GET" | "DELETE", name]:
            known = await collection.tags(call, key)
            if name not in known:
                raise faults.FaultError(404, "TagNotFound", f"Tag {name} could not be found.")
            if method == "DELETE":
                await collection.set_tags(call, key, [each for each in known if each != name])
            return http_interface.Response(204, b"")
    raise faults.no_method()


def _read_body(call: calls.Call) -> list[str]:
    body = call.decode_body()
    if not isinstance(body, dict) or set(body) != {"tags"}:
        raise faults.bad_request("Invalid tags body")
    reason = _TAGS(body["tags"])
    if reason:
        raise faults.invalid("tags", reason)
    return msgspec.convert(body["tags"], list[str])


def _tags(tags: Sequence[str]) -> http_interface.Response:
    return http_interface.Response(200, msgspec.json.encode({"tags": tags}))
