"""Reading and writing the ``config.ini`` of an export (contracts/export.md#config-file). Pure.

Sections ``export``, ``instance``, ``hypervisor``, ``backend`` and ``os``, with the names that older tools know. Gantry
adds: ``format`` (``dump``: disks as they are; ``script``: written by the OS's export script); for each disk its mode,
and ``sha256`` and ``bytes`` of its dump as stored, compressed; for each NIC all its addresses. The parameter sections
contain what was set for the instance, without defaults.
"""

import configparser
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gantry import errors
from gantry.model import opcodes
from gantry.rpc import calls

VERSION = "0"
NONE = "none"


@dataclass(frozen=True)
class Dump:
    """A disk of an export; ``digest`` is empty if the export has none. Sizes are MiB."""

    file: str
    size: int
    mode: str = "rw"
    name: str = ""
    digest: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Export:
    """An exported instance. ``scripted``: its dumps are for the OS's import script."""

    instance: str
    source: str
    timestamp: int
    os: str
    compression: str
    scripted: bool
    disk_template: str
    hypervisor: str
    dumps: Sequence[Dump]
    nics: Sequence[opcodes.NicSpec] = ()
    tags: Sequence[str] = ()
    hvparams: Mapping[str, str] = field(default_factory=dict)
    beparams: Mapping[str, str] = field(default_factory=dict)
    osparams: Mapping[str, str] = field(default_factory=dict)


def write(export: Export, whole: calls.Instance) -> str:
    """Return the text for an export; ``whole`` is the filled instance, with values that older tools read."""
    parser = _Parser()
    parser["export"] = {
        "version": VERSION,
        "timestamp": str(export.timestamp),
        "source": export.source,
        "os": export.os,
        "compression": export.compression,
        "format": "script" if export.scripted else "dump",
    }
    parser["instance"] = _instance(export, whole)
    parser["hypervisor"] = dict(export.hvparams)
    parser["backend"] = dict(export.beparams)
    parser["os"] = dict(export.osparams)
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


class _Parser(configparser.ConfigParser):
    """Reads and writes the file; keeps the case of parameter names."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))

    def optionxform(self, optionstr: str) -> str:
        """Return a name unchanged."""
        return optionstr


def _instance(export: Export, whole: calls.Instance) -> dict[str, str]:
    backend = whole.beparams
    values = {
        "name": export.instance,
        "maxmem": str(backend["maxmem"]),
        "minmem": str(backend["minmem"]),
        "memory": str(backend["maxmem"]),
        "vcpus": str(backend["vcpus"]),
        "disk_template": export.disk_template,
        "hypervisor": export.hypervisor,
        "tags": " ".join(export.tags),
        "nic_count": str(len(whole.nics)),
        "disk_count": str(len(export.dumps)),
    }
    for nic in whole.nics:
        addresses = [address.ip for address in nic.addresses]
        values |= {
            f"nic{nic.index}_mac": nic.mac,
            f"nic{nic.index}_ip": addresses[0] if addresses else NONE,
            f"nic{nic.index}_ips": " ".join(addresses),
            f"nic{nic.index}_network": nic.network.name if nic.network else NONE,
            f"nic{nic.index}_name": nic.name or NONE,
            f"nic{nic.index}_mode": nic.mode,
            f"nic{nic.index}_link": nic.link,
            f"nic{nic.index}_vlan": nic.vlan,
        }
    for index, dump in enumerate(export.dumps):
        values |= {
            f"disk{index}_ivname": f"disk/{index}",
            f"disk{index}_dump": dump.file,
            f"disk{index}_size": str(dump.size),
            f"disk{index}_name": dump.name or NONE,
            f"disk{index}_mode": dump.mode,
            f"disk{index}_sha256": dump.digest,
            f"disk{index}_bytes": str(dump.bytes),
        }
    return values


MAX_REASON_LENGTH = 200
"""The maximum number of characters of a parser's error in a message: the file may contain anything."""


def read(text: str, *, where: str) -> Export:
    """Read the text of an export; raises WrongStateError for invalid text. ``where`` names the file in the error."""
    parser = _Parser()
    try:
        parser.read_string(text)
        return _export(parser)
    except (configparser.Error, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:MAX_REASON_LENGTH]
        missing = " is missing" if isinstance(error, KeyError) else ""
        raise errors.WrongStateError(
            f"{where} is damaged: its config.ini cannot be read: {reason}{missing}", hint="use another export"
        ) from None


def _export(parser: configparser.ConfigParser) -> Export:
    about, vm = parser["export"], parser["instance"]
    if about["version"] != VERSION:
        raise ValueError(f"unknown version {about['version']}")
    count = _count(vm["disk_count"], 16)
    return Export(
        instance=vm["name"],
        source=about.get("source", ""),
        timestamp=int(about.get("timestamp", "0")),
        os=about["os"],
        compression=about.get("compression", NONE),
        # older tools only have scripts
        scripted=about.get("format", "script") == "script",
        disk_template=vm["disk_template"],
        hypervisor=vm["hypervisor"],
        dumps=[_dump(vm, f"disk{index}_") for index in range(count)],
        nics=[_nic(vm, f"nic{index}_") for index in range(_count(vm.get("nic_count", "0"), 8))],
        tags=vm.get("tags", "").split(),
        hvparams=_section(parser, "hypervisor"),
        beparams=_section(parser, "backend"),
        osparams=_section(parser, "os"),
    )


def _count(text: str, maximum: int) -> int:
    count = int(text)
    if not 0 <= count <= maximum:
        raise ValueError(f"{count} is not between 0 and {maximum}")
    return count


def _section(parser: configparser.ConfigParser, name: str) -> dict[str, str]:
    return dict(parser[name]) if parser.has_section(name) else {}


def _known(text: str) -> str:
    return "" if text in (NONE, "None") else text


def _dump(vm: configparser.SectionProxy, prefix: str) -> Dump:
    return Dump(
        file=vm[f"{prefix}dump"],
        size=_count(vm[f"{prefix}size"], 1 << 40),
        mode=vm.get(f"{prefix}mode", "rw"),
        name=_known(vm.get(f"{prefix}name", "")),
        digest=vm.get(f"{prefix}sha256", ""),
        bytes=int(vm.get(f"{prefix}bytes", "0")),
    )


def _nic(vm: configparser.SectionProxy, prefix: str) -> opcodes.NicSpec:
    addresses = vm.get(f"{prefix}ips", _known(vm.get(f"{prefix}ip", ""))).split()
    network = _known(vm.get(f"{prefix}network", ""))
    # A NIC in a network gets the other values from the network.
    plug = {} if network else {name: vm.get(f"{prefix}{name}") or None for name in ("mode", "link", "vlan")}
    return opcodes.NicSpec(
        mac=vm.get(f"{prefix}mac", "auto"),
        ip=tuple(addresses) or None,
        network=network or None,
        name=_known(vm.get(f"{prefix}name", "")) or None,
        **plug,
    )
