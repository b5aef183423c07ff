"""The configuration for export: everything except jobs and secrets.

Secrets are blanked by the names of their keys, wherever they are: parameters of operating systems are free, and people
put passwords there. The configuration does not contain keys and certificates; they are in files of their own.

See contracts/cluster-design.md#configuration-export.
"""

import re

import msgspec
from msgspec import structs

from gantry.model import confidential
from gantry.state.files import checkpoint
from gantry.state.objects import snapshot

BLANK = confidential.BLANK
SECRET = re.compile(r"passw|secret|token|private|credential|api_?key", re.IGNORECASE)
"""A key with one of these in it names a secret."""


def configuration(state: snapshot.Snapshot) -> dict[str, object]:
    """Return the configuration as JSON data, with the keys that ``config.data`` has, and secrets blanked."""
    owner = state.the_cluster
    collections = {kind: dict(state.collection(kind).items()) for kind in checkpoint.COLLECTIONS}
    head = {"version": checkpoint.VERSION, "serial_no": state.serial, "ctime": owner.ctime}
    owner = structs.replace(owner, ipam_database=confidential.database(owner.ipam_database))
    plain = msgspec.to_builtins(head | {"cluster": owner} | collections)
    blanked_data = blanked(plain)
    assert isinstance(blanked_data, dict)
    return blanked_data


def blanked(value: object) -> object:
    """Return JSON data with every value blanked whose key names a secret."""
    if isinstance(value, dict):
        return {key: BLANK if SECRET.search(str(key)) and inner else blanked(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [blanked(inner) for inner in value]
    return value
