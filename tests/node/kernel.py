"""A stand-in for the ``ip`` and ``bridge`` commands of a kernel that tells VLANs apart, on simulated processes.

It knows the words that the NIC drivers use, and refuses all others.
"""

import json
from dataclasses import dataclass, field

from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes

FILTERING = {"vlan_filtering": 1, "vlan_default_pvid": 1}
PLAIN = {"vlan_filtering": 0, "vlan_default_pvid": 1}


@dataclass
class Device:
    """A network device: ``vlans`` of a port maps its VLANs to whether that is the one without tags."""

    kind: str = ""
    master: str = ""
    under: str | None = None
    up: bool = False
    info: dict[str, object] = field(default_factory=dict)
    vlans: dict[int, bool] = field(default_factory=dict)


class Kernel:
    """The devices of a machine, and a log of the commands that changed them."""

    def __init__(self, machine: simulated.SimulatedRuntime, **devices: Device) -> None:
        self.devices = devices
        self.changes: list[str] = []
        machine.processes.programs |= {"ip": self._ip, "bridge": self._bridge}

    def bridge(self, name: str, **info: object) -> None:
        self.devices[name] = Device("bridge", info=info, up=True)

    def port(self, name: str, bridge: str, *tagged: int, kind: str = "") -> None:
        self.devices[name] = Device(kind, master=bridge, up=True, vlans={1: True, **dict.fromkeys(tagged, False)})

    async def _ip(self, call: processes.Invocation) -> commands.Completed:
        match list(call.arguments[1:]):
            case ["-details", "-json", "link", "show", "dev", name]:
                devices = [self._description(name)] if name in self.devices else []
                return _output(devices) if devices else _failed(f"Device {name} does not exist.")
            case ["-details", "-json", "link", "show", *words]:
                master = words[1] if words else None
                listed = [name for name, device in self.devices.items() if master in (None, device.master)]
                return _output([self._description(name) for name in listed])
            case ["-json", "address", "show", "dev", name]:
                return _output([{"ifname": name, "addr_info": [{"family": "inet", "scope": "global"}]}])
            case ["link", "add", "name", name, "type", "vxlan", *_]:
                return _failed("Error: Unknown device type.")
            case ["tuntap", "add", "dev", name, "mode", "tap"]:
                self.devices[name] = Device("tun")
            case ["link", "add", "link", under, "name", name, "type", "vlan", "id", number]:
                self.devices[name] = Device("vlan", under=under, info={"id": int(number)})
            case ["link", "add", "name", name, "type", "bridge"]:
                self.devices[name] = Device("bridge", info=dict(PLAIN))
            case ["link", "delete", "dev", name]:
                del self.devices[name]
                for device in self.devices.values():
                    device.master = "" if device.master == name else device.master
            case ["link", "set", "dev", name, *words]:
                self._set(self.devices[name], words)
            case words:
                return _failed(f"unknown words {words}")
        self.changes.append(" ".join(call.arguments))
        return _output(None)

    def _set(self, device: Device, words: list[str]) -> None:
        options = dict(zip(words, [*words[1:], ""], strict=True))
        if "nomaster" in options:
            device.master, device.vlans = "", {}
        if "master" in options:
            device.master = options["master"]
            device.vlans = {1: True} if self.devices[device.master].info.get("vlan_filtering") else {}
        device.up = "up" in options or (device.up and "down" not in options)

    def _description(self, name: str) -> dict[str, object]:
        device = self.devices[name]
        description = {
            "ifname": name,
            "link": device.under,
            "linkinfo": {"info_kind": device.kind, "info_data": device.info},
        }
        return description | ({"master": device.master} if device.master else {}) | {"mtu": 1500}

    async def _bridge(self, call: processes.Invocation) -> commands.Completed:
        match list(call.arguments[1:]):
            case ["-json", "vlan", "show", *words]:
                names = words[1:] or list(self.devices)
                return _output([self._vlans(name) for name in names if self.devices[name].vlans])
            case ["vlan", "add", "dev", name, "vid", number, *flags]:
                vlans, native = self.devices[name].vlans, flags == ["pvid", "untagged"]
                assert not (native and True in vlans.values()), "the old one goes first"
                vlans[int(number)] = native
            case ["vlan", "del", "dev", name, "vid", number]:
                del self.devices[name].vlans[int(number)]
            case words:
                return _failed(f"unknown words {words}")
        self.changes.append(" ".join(call.arguments))
        return _output(None)

    def _vlans(self, name: str) -> dict[str, object]:
        flags = {True: ["PVID", "Egress Untagged"], False: []}
        vlans = [{"vlan": number, "flags": flags[native]} for number, native in self.devices[name].vlans.items()]
        return {"ifname": name, "vlans": vlans}


def _output(content: object) -> commands.Completed:
    return commands.Completed(0, json.dumps(content).encode() if content is not None else b"", b"")


def _failed(why: str) -> commands.Completed:
    return commands.Completed(1, b"", why.encode())
