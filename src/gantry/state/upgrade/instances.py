"""Instances of an old configuration, with their disks and NICs; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantry.model import base, cluster, instance, parameters
from gantry.state.upgrade import clusters, document, findings

_TYPES = {"lvm": "plain", "drbd8": "drbd"}
"""Types of disks before 2.10, and their names since then."""

_CHILDREN = 2
"""The number of nodes of a mirrored disk, and of its volumes on each: for data and for metadata."""

STORAGE = "/srv/ganeti/file-storage"
"""The folder for files of disks if the cluster does not name one."""


@dataclass(frozen=True)
class Surroundings:
    """The objects that instances refer to; ``nodes`` and ``networks`` give the UUID for each name and UUID.

    ``groups`` has the node group of a node's UUID. ``old_storage`` is the folder that the files of disks were in,
    ``storage`` the one they are expected in.
    """

    nodes: Mapping[str, str]
    networks: Mapping[str, str]
    groups: Mapping[str, cluster.NodeGroup]
    disks: Mapping[str, document.Disk]
    old_storage: str
    storage: str


@dataclass(frozen=True)
class Conversion:
    """The conversion of one instance; ``report`` collects what does not exist here."""

    old: document.Instance
    uuid: str
    name: str
    around: Surroundings
    report: findings.Findings

    def result(self) -> instance.Instance:
        """Return the instance."""
        old, what = self.old, self._what
        kind = old.hypervisor or ""
        known = parameters.HYPERVISORS.get(kind)
        if known is None:
            self.report.refuse(f"hypervisor {kind or '(none)'} does not exist here", what)
        if old.forthcoming:
            self.report.refuse("it is only planned (forthcoming)", what)
        template, disks = self._disks()
        own = clusters.header(old, self.uuid, name=self.name) | {
            "primary_node": self._node,
            "hypervisor": kind,
            "os": old.os or "",
            "disk_template": template,
            "admin_state": self._state(),
            "disks": disks,
            "nics": tuple(self._nic(nic, index) for index, nic in enumerate(old.nics or ())),
            "hvparams": self.report.carried(old.hvparams, known, what=what) if known else {},
            "beparams": self.report.carried(clusters.memory(old.beparams), parameters.BACKEND, what=what),
            "osparams": clusters.plain(old.osparams, self.report, what=what),
            "osparams_private": clusters.plain(old.osparams_private, self.report, what=what),
            "network_port": old.network_port or 0,
        }
        return msgspec.convert(own, instance.Instance)

    @property
    def _what(self) -> str:
        return f"instance {self.name}"

    @property
    def _node(self) -> str:
        if self.old.primary_node not in self.around.nodes:
            self.report.refuse(f"there is no node {self.old.primary_node}", self._what)
        return self.around.nodes.get(self.old.primary_node, "")

    def _state(self) -> str:
        """Return the admin state: a word, in 2.0 a boolean."""
        up = self.old.admin_up if self.old.admin_up is not None else self.old.status in (True, "up")
        return self.old.admin_state or ("up" if up else "down")

    def _disks(self) -> tuple[str, tuple[instance.Disk, ...]]:
        """Return the disk template, which later releases only have in the disks, and the disks."""
        listed = [
            self.around.disks.get(entry, entry) if isinstance(entry, str) else entry for entry in self.old.disks or ()
        ]
        lost = [entry for entry in listed if isinstance(entry, str)]
        if lost:
            self.report.refuse(f"there is no disk {', '.join(lost)}", self._what)
        disks = [entry for entry in listed if not isinstance(entry, str)]
        template = self.old.disk_template or (_type(disks[0]) if disks else "diskless")
        strange = {template, *map(_type, disks)} - {*clusters.TEMPLATES}
        for kind in sorted(strange):
            self.report.refuse(f"disks of template {kind} cannot be upgraded", self._what)
        return template, () if strange else tuple(self._disk(disk, index) for index, disk in enumerate(disks))

    def _disk(self, old: document.Disk, index: int) -> instance.Disk:
        disk = instance.Disk(
            uuid=old.uuid or findings.identifier("disk", self.uuid, str(index)),
            dev_type=_type(old),
            size=old.size,
            name=old.name or "",
            mode=old.mode or "rw",
        )
        match disk.dev_type:
            case "plain":
                return msgspec.structs.replace(disk, logical_id=self._volume(old, index))
            case "drbd":
                children = tuple(self._child(child, index, part) for part, child in enumerate(old.children or ()))
                return msgspec.structs.replace(disk, children=children, mirror=self._mirror(old, index))
            case _:
                return msgspec.structs.replace(disk, logical_id=(disk.dev_type, self._path(old)))

    def _path(self, old: document.Disk) -> str:
        path = str((old.logical_id or ("",))[-1])
        inside = path.removeprefix(f"{self.around.old_storage}/")
        if inside == path or inside.count("/") != 1:
            self.report.refuse(f"a disk is not at {self.around.old_storage}/INSTANCE/DISK but at {path}", self._what)
        return f"{self.around.storage}/{inside}"

    def _volume(self, old: document.Disk, index: int) -> tuple[str, str]:
        match old.logical_id:
            case (str(group), str(name)) if "/" not in group + name:
                return group, name
        location = " ".join(map(str, old.logical_id or ())) or "nothing"
        self.report.refuse(f"a volume of disk {index} is not a group and a name but {location}", self._what)
        return "", ""

    def _child(self, old: document.Disk, index: int, part: int) -> instance.Disk:
        if _type(old) != "plain":
            self.report.refuse(f"disk {index} is mirrored on {old.dev_type}, not on logical volumes", self._what)
        return instance.Disk(
            uuid=old.uuid or findings.identifier("disk", self.uuid, str(index), str(part)),
            dev_type="plain",
            size=old.size,
            logical_id=self._volume(old, index),
        )

    def _mirror(self, old: document.Disk, index: int) -> instance.Mirror | None:
        match old.logical_id:
            case (str(first), str(second), int(port), int(minor), int(other_minor), str(secret)) if {
                first,
                second,
            } <= self.around.nodes.keys() and len(old.children or ()) == _CHILDREN:
                minors = {self.around.nodes[first]: minor, self.around.nodes[second]: other_minor}
                # The primary node comes first: the other one is its secondary.
                ordered = sorted(minors, key=lambda node: node != self._node)
                if ordered[0] == self._node and len(minors) == _CHILDREN:
                    return instance.Mirror({node: minors[node] for node in ordered}, port, secret)
        self.report.refuse(
            f"mirrored disk {index} does not have its primary and another node, a port, two minors, a secret and two "
            "volumes",
            self._what,
        )
        return None

    def _nic(self, old: document.Nic, index: int) -> instance.Nic:
        network_uuid = self.around.networks.get(old.network or "", "")
        if old.network and not network_uuid:
            self.report.refuse(f"there is no network {old.network}", self._what)
        ip = self.report.address(old.ip, what=self._what)
        return instance.Nic(
            uuid=old.uuid or findings.identifier("nic", self.uuid, str(index)),
            mac=old.mac.lower(),
            name=old.name or "",
            ip=(ip,) if ip else (),
            network=network_uuid,
            nicparams=self._plug(old, network_uuid),
        )

    def _plug(self, old: document.Nic, network_uuid: str) -> base.Parameters:
        """Return mode, link and VLAN: the NIC's own, and for one with a network those of the connection."""
        old_values: document.Parameters = {"mode": "bridged", "link": old.bridge} if old.bridge else {}
        group = self.around.groups.get(self.around.nodes.get(self.old.primary_node, ""))
        connection = group.networks.get(network_uuid) if group else None
        if connection:
            old_values = {"mode": connection.mode, "link": connection.link, "vlan": connection.vlan}
        plug = self.report.carried(old_values | (old.nicparams or {}), parameters.NIC, what=f"a NIC of {self._what}")
        if "vlan" in plug:
            plug["vlan"] = str(plug["vlan"]).removeprefix(".")
        return {name: value for name, value in plug.items() if value != ""}


def _type(old: document.Disk) -> str:
    return _TYPES.get(old.dev_type, old.dev_type)
