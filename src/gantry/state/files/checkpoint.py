"""The checkpoint: the whole configuration in one readable JSON file, ``config.data``, one object a line.

    {"checksum": SHA-256 of all that follows this line,
     "version": ..., "serial_no": ..., "ctime": ..., "mtime": ...,
     "journal": {"serial", "digest", "epoch", "last_job", "jobs"},
     "cluster": {...}, "nodegroups": {uuid: {...}}, "nodes": ..., "networks": ..., "instances": ..., "disks": ...,
     "resting": ..., "segmentranges": ..., "ports": ..., "subnetpools": ...}

Names of the keys are those of contracts/configuration.md#configdata. ``journal`` is what recovery needs: the last
record that the file includes, the chain hash of its frame, the epoch, the highest job number ever assigned, and the
jobs that are not archived, with the digests of their files (``jobfiles`` writes them). ``store.checkpointer`` writes
the file when the journal has grown and when the daemon ends; ``start.recovery`` reads it once. An administrator who
edits the file on purpose writes ``edited`` as the checksum; a file with a missing or wrong checksum is damaged.
"""

import hashlib
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import msgspec

from gantry import errors
from gantry.lib_files import frame
from gantry.lib_files import queue as queue_file
from gantry.model import cluster as clusters
from gantry.rpc import calls
from gantry.state.files import jobfiles, reserved
from gantry.state.journal import journal
from gantry.state.objects import kinds, snapshot

VERSION = 10_000_000
"""Major version x 1,000,000 + minor version x 10,000. Ours begins at 10: lower numbers are Ganeti's."""

COLLECTIONS = tuple(kind.collection for kind in kinds.KINDS.values() if kind.in_checkpoint)
"""The collections that the file has as maps by UUID, in their order there."""


class _Journal(msgspec.Struct, frozen=True):
    serial: calls.Count
    digest: str
    epoch: calls.Epoch
    last_job: calls.Count
    jobs: dict[int, str]


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Head(msgspec.Struct, frozen=True):
    journal: _Journal
    cluster: clusters.Cluster
    networks: dict[str, reserved.Network]


def _file_type() -> type[_Head]:
    """Return the struct of ``config.data``: the head, and a map for each collection.

    An older version of the file may lack collections, which are empty then.
    """
    fields: list[tuple[str, type, object]] = []
    for kind in (kinds.KINDS[collection] for collection in COLLECTIONS):
        # The objects of "networks" have more fields in the file than in the state, so _Head has their type.
        if kind.collection not in _Head.__struct_fields__:
            objects = cast("type", types.GenericAlias(dict, (str, kind.type)))
            fields.append((kind.collection, objects, msgspec.NODEFAULT if kind.in_every_checkpoint else {}))
    return cast("type[_Head]", msgspec.defstruct("_File", fields, bases=(_Head,), frozen=True, kw_only=True))


_CHECKSUM = re.compile(rb'\{\n"checksum": "([0-9a-f]{64})",\n')
_EDITED = re.compile(rb'\s*\{\s*"checksum"\s*:\s*"edited"\s*,')
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_file_type())


@dataclass(frozen=True)
class Loaded:
    """The content of a checkpoint: objects in an order that can be applied at once, and where the journal continues.

    ``edited`` means that the checksum marks the file as edited on purpose.
    """

    position: journal.Position
    last_job: int
    jobs: dict[int, str]
    objects: tuple[snapshot.Stored, ...]
    edited: bool = False


def encode(state: snapshot.Snapshot, position: journal.Position, *, now: float) -> bytes:
    """Return the file for ``state``, which is the state at ``position``; pure, so it may run in a thread."""
    the_cluster = state.the_cluster
    tail = _Journal(
        serial=position.serial,
        digest=position.digest,
        epoch=position.epoch,
        last_job=state.last_job,
        jobs={job.id: queue_file.digest(jobfiles.encode(job)) for job in state.jobs.values()},
    )
    head = {"version": VERSION, "serial_no": position.serial, "ctime": the_cluster.ctime, "mtime": now}
    parts = [b'"%s": %s' % (key.encode(), _ENCODER.encode(value)) for key, value in head.items()]
    parts += [b'"journal": ' + _ENCODER.encode(tail), b'"cluster": ' + _ENCODER.encode(the_cluster)]
    parts += [_collection(state, kind) for kind in COLLECTIONS]
    body = b"%s\n}\n" % b",\n".join(parts)
    return b'{\n"checksum": "%s",\n%s' % (hashlib.sha256(body).hexdigest().encode(), body)


def _collection(state: snapshot.Snapshot, kind: str) -> bytes:
    objects: Iterable[tuple[str, snapshot.Stored]] = state.collection(kind).items()
    if kind == "networks":
        used = reserved.used_in(state)
        objects = ((key, reserved.with_reservations(net, used)) for key, net in state.networks.items())
    lines = [b"%s: %s" % (_ENCODER.encode(key), _ENCODER.encode(value)) for key, value in objects]
    return b'"%s": {\n%s\n}' % (kind.encode(), b",\n".join(sorted(lines)))


def decode(data: bytes, *, path: str) -> Loaded:
    """Read the file; raises ConfigurationError for damage and for an unsupported version."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise _unknown(version, path)
        edited = _EDITED.match(data) is not None
        if not (edited or _is_whole(data)):
            what = 'the checksum does not fit; if the file was edited on purpose, write "edited" in its place'
            raise journal.damaged(path, what)
        file = _DECODER.decode(data)
        objects = tuple(value for collection in COLLECTIONS for value in _objects(file, collection))
        fault = reserved.fault(file.networks.values(), objects)
    except (*frame.UNREADABLE, errors.InvalidError) as error:
        raise journal.damaged(path, str(error)) from None
    if fault:
        raise journal.damaged(path, fault)
    tail = file.journal
    return Loaded(
        position=journal.Position(tail.serial, tail.digest, tail.epoch),
        last_job=tail.last_job,
        jobs=tail.jobs,
        objects=(file.cluster, *objects),
        edited=edited,
    )


def _objects(file: _Head, collection: str) -> Iterable[snapshot.Stored]:
    if collection == "networks":
        return map(reserved.without_reservations, file.networks.values())
    objects: dict[str, snapshot.Stored] = getattr(file, collection)
    return objects.values()


def _is_whole(data: bytes) -> bool:
    signed = _CHECKSUM.match(data)
    return signed is not None and hashlib.sha256(data[signed.end() :]).hexdigest().encode() == signed[1]


def _unknown(version: int, path: str) -> errors.ConfigurationError:
    age = "newer than" if version > VERSION else "not one of"
    return errors.ConfigurationError(
        f"{path} has the format version {version}, which is {age} this software's ({VERSION})",
        hint="run the version of the software that wrote it; nothing was changed",
    )
