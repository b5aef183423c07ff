"""The query field registry: every field of every resource, with the title, kind and text that lists show.

The names are those that existing clients ask for (contract: fields per resource). ``operations.query`` has a getter
for each; a test holds the two together. A field that is ``live`` needs an answer from a node.
"""

from collections.abc import Sequence
from enum import IntEnum, StrEnum

import msgspec

from gantry.model import parameters


class Kind(StrEnum):
    """What a field's values are; ``unit`` is MiB, ``timestamp`` seconds since the epoch."""

    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    FLOAT = "float"
    UNIT = "unit"
    TIMESTAMP = "timestamp"
    OTHER = "other"
    UNKNOWN = "unknown"


class ResultStatus(IntEnum):
    """What stands beside each value of a query's result."""

    NORMAL = 0
    UNKNOWN = 1
    NO_DATA = 2
    UNAVAILABLE = 3
    OFFLINE = 4


class Field(msgspec.Struct, frozen=True):
    """A field as QueryFields describes it; ``live`` stays inside."""

    name: str
    title: str
    kind: Kind = Kind.TEXT
    doc: str = ""
    live: bool = False


DISKS = 16
NICS = 8
"""How many numbered fields (``disk.size/N``, ``nic.ip/N``) there are."""

B, N, U, T, O = Kind.BOOL, Kind.NUMBER, Kind.UNIT, Kind.TIMESTAMP, Kind.OTHER  # noqa: E741

_COMMON = (
    Field("ctime", "CTime", T, "When it was created"),
    Field("mtime", "MTime", T, "When it was changed last"),
    Field("uuid", "UUID", doc="Its identifier for ever"),
    Field("serial_no", "SerialNo", N, "How often it was changed"),
    Field("tags", "Tags", O, "Its tags"),
)

_NODE = (
    Field("name", "Node", doc="Name"),
    Field("role", "Role", doc="M master, C candidate, R regular, D drained, O offline"),
    Field("drained", "Drained", B, "Takes no new instances"),
    Field("offline", "Offline", B, "Is not contacted"),
    Field("master", "IsMaster", B, "Holds the master role"),
    Field("master_candidate", "MasterC", B, "Keeps a copy of the state"),
    Field("master_capable", "MasterCapable", B, "May become a candidate"),
    Field("vm_capable", "VMCapable", B, "May run instances"),
    Field("pip", "PrimaryIP", doc="Address of its node daemon"),
    Field("sip", "SecondaryIP", doc="Address for replication"),
    Field("group", "Group", doc="Node group"),
    Field("group.uuid", "GroupUUID", doc="UUID of its node group"),
    Field("pinst_cnt", "Pinst", N, "Instances it is the primary node of"),
    Field("sinst_cnt", "Sinst", N, "Instances it is the secondary node of"),
    Field("pinst_list", "PriInstances", O, "Names of those instances"),
    Field("sinst_list", "SecInstances", O, "Names of those instances"),
    Field("detached_disks", "DetachedDisks", O, "UUIDs of the disks it keeps that have no instance, with their names"),
    Field("ndparams", "NodeParameters", O, "Node parameters, filled"),
    Field("custom_ndparams", "CustomNodeParameters", O, "Node parameters set here"),
    Field("powered", "Powered", B, "Whether it has power: not known"),
    Field("hv_state", "HypervisorState", O, "Not known"),
    Field("disk_state", "DiskState", O, "Not known"),
    Field("accelerator", "Accelerator", doc="What a guest really runs with: kvm or tcg"),
    Field("accelerator_reason", "AccelReason", doc="What the probe of the accelerator found"),
    Field("bootid", "BootID", doc="Changes with each boot", live=True),
    Field("cnodes", "CNodes", N, "NUMA nodes", live=True),
    Field("cnos", "CNOs", N, "Processors that the node itself uses", live=True),
    Field("csockets", "CSockets", N, "Processor sockets", live=True),
    Field("ctotal", "CTotal", N, "Processors", live=True),
    Field("dfree", "DFree", U, "Free room for disks", live=True),
    Field("dtotal", "DTotal", U, "Room for disks", live=True),
    Field("mfree", "MFree", U, "Free memory", live=True),
    Field("mnode", "MNode", U, "Memory that the node itself uses", live=True),
    Field("mtotal", "MTotal", U, "Memory", live=True),
    Field("spfree", "SpFree", N, "Free spindles: all of them, they are not counted", live=True),
    Field("sptotal", "SpTotal", N, "Spindles", live=True),
)

_INSTANCE = (
    Field("name", "Instance", doc="Name"),
    Field("admin_state", "InstanceState", doc="What is wanted: up, down, offline"),
    Field("admin_state_source", "InstanceStateSource", doc="Who wants it so: admin"),
    Field("admin_up", "Autostart", B, "Whether it should run"),
    Field("disks_active", "DisksActive", B, "Whether its disks are to be active"),
    Field("forthcoming", "Forthcoming", B, "Whether it is only planned: never"),
    Field("hypervisor", "Hypervisor", doc="Hypervisor"),
    Field("os", "OS", doc="Operating system"),
    Field("pnode", "Primary_node", doc="Node that runs it"),
    Field("pnode.group", "PrimaryNodeGroup", doc="Group of that node"),
    Field("pnode.group.uuid", "PrimaryNodeGroupUUID", doc="UUID of that group"),
    Field("snodes", "Secondary_Nodes", O, "Nodes with a copy of its disks"),
    Field("snodes.group", "SecondaryNodesGroups", O, "Groups of those nodes"),
    Field("snodes.group.uuid", "SecondaryNodesGroupsUUID", O, "UUIDs of those groups"),
    Field("disk_template", "Disk_template", doc="Kind of its disks"),
    Field("disk_usage", "DiskUsage", U, "Room its disks take"),
    Field("network_port", "Network_port", O, "Port of its console"),
    Field("hvparams", "HypervisorParameters", O, "Hypervisor parameters, filled"),
    Field("beparams", "BackendParameters", O, "Backend parameters, filled"),
    Field("osparams", "OsParameters", O, "Operating system parameters"),
    Field("custom_hvparams", "CustomHypervisorParameters", O, "Hypervisor parameters set here"),
    Field("custom_beparams", "CustomBackendParameters", O, "Backend parameters set here"),
    Field("custom_osparams", "CustomOsParameters", O, "Operating system parameters set here"),
    Field("custom_nicparams", "CustomNicParameters", O, "Parameters set for each NIC"),
    Field("be/memory", "ConfigMaxMem", U, "Memory"),
    Field("vcpus", "ConfigVCPUs", N, "Virtual processors"),
    Field("disk.count", "Disks", N, "How many disks"),
    Field("disk.sizes", "Disk_sizes", O, "Sizes of the disks"),
    Field("disk.spindles", "Disk_spindles", O, "Spindles of the disks: not counted"),
    Field("disk.names", "Disk_names", O, "Names of the disks"),
    Field("disk.uuids", "Disk_UUIDs", O, "UUIDs of the disks"),
    Field("sda_size", "Disk/0", U, "Size of the first disk"),
    Field("sdb_size", "Disk/1", U, "Size of the second disk"),
    Field("nic.count", "NICs", N, "How many NICs"),
    Field("nic.macs", "NIC_MACs", O, "MAC addresses"),
    Field("nic.ips", "NIC_IPs", O, "Addresses, a list for each NIC"),
    Field("nic.names", "NIC_Names", O, "Names of the NICs"),
    Field("nic.uuids", "NIC_UUIDs", O, "UUIDs of the NICs"),
    Field("nic.modes", "NIC_modes", O, "Modes of the NICs"),
    Field("nic.links", "NIC_links", O, "Links of the NICs"),
    Field("nic.vlans", "NIC_VLANs", O, "VLANs of the NICs"),
    Field("nic.bridges", "NIC_bridges", O, "Bridges of the NICs"),
    Field("nic.networks", "NIC_networks", O, "UUIDs of the NICs' networks"),
    Field("nic.networks.names", "NIC_networks_names", O, "Names of the NICs' networks"),
    Field("ip", "IP_address", doc="First address of the first NIC"),
    Field("mac", "MAC_address", doc="MAC address of the first NIC"),
    Field("bridge", "Bridge", doc="Bridge of the first NIC"),
    Field("nic_mode", "NIC_Mode", doc="Mode of the first NIC"),
    Field("nic_link", "NIC_Link", doc="Link of the first NIC"),
    Field("nic_network", "NIC_Network", doc="Network of the first NIC"),
    Field("status", "Status", doc="What it does, against what is wanted", live=True),
    Field("oper_state", "Running", B, "Whether it runs", live=True),
    Field("oper_ram", "Memory", U, "Memory it has now", live=True),
    Field("oper_vcpus", "VCPUs", N, "Virtual processors it has now", live=True),
    Field("console", "Console", O, "How its console is reached", live=True),
)

_NUMBERED_DISK = (
    ("size", "Disk/{}", U),
    ("spindles", "DiskSpindles/{}", N),
    ("name", "DiskName/{}", Kind.TEXT),
    ("uuid", "DiskUUID/{}", Kind.TEXT),
)
_NUMBERED_NIC = (
    ("mac", "NicMAC/{}", Kind.TEXT),
    ("ip", "NicIP/{}", O),
    ("name", "NicName/{}", Kind.TEXT),
    ("uuid", "NicUUID/{}", Kind.TEXT),
    ("mode", "NicMode/{}", Kind.TEXT),
    ("link", "NicLink/{}", Kind.TEXT),
    ("vlan", "NicVLAN/{}", Kind.TEXT),
    ("bridge", "NicBridge/{}", Kind.TEXT),
    ("network", "NicNetwork/{}", Kind.TEXT),
    ("network.name", "NicNetworkName/{}", Kind.TEXT),
)


def _numbered() -> list[Field]:
    disks = [
        Field(f"disk.{key}/{i}", title.format(i), kind, f"The {key} of disk {i}")
        for i in range(DISKS)
        for key, title, kind in _NUMBERED_DISK
    ]
    return disks + [
        Field(f"nic.{key}/{i}", title.format(i), kind, f"The {key} of NIC {i}")
        for i in range(NICS)
        for key, title, kind in _NUMBERED_NIC
    ]


def _parameter_kind(parameter: parameters.Parameter, name: str) -> Kind:
    if isinstance(parameter.default, bool):
        return B
    if isinstance(parameter.default, float):
        return Kind.FLOAT
    if isinstance(parameter.default, int):
        return U if name.endswith("mem") else N
    return Kind.TEXT


def _node_parameters() -> list[Field]:
    return [
        Field(f"ndp/{name}", "".join(word.capitalize() for word in name.split("_")), _parameter_kind(p, name), p.text)
        for name, p in parameters.NODE.items()
    ]


def _parameter_fields() -> list[Field]:
    backend = [
        Field(f"be/{name}", f"be/{name}", _parameter_kind(parameter, name), parameter.text)
        for name, parameter in parameters.BACKEND.items()
    ]
    names: dict[str, parameters.Parameter] = {}
    for known in parameters.HYPERVISORS.values():
        names = known | names
    hypervisor = [Field(f"hv/{name}", f"hv/{name}", _parameter_kind(p, name), p.text) for name, p in names.items()]
    return backend + hypervisor


_GROUP = (
    Field("name", "Group", doc="Name"),
    Field("alloc_policy", "AllocPolicy", doc="Whether new instances may go there"),
    Field("ndparams", "NDParams", O, "Node parameters, filled"),
    Field("custom_ndparams", "CustomNDParams", O, "Node parameters set here"),
    Field("diskparams", "DiskParameters", O, "Disk parameters by kind of disk, filled"),
    Field("custom_diskparams", "CustomDiskParameters", O, "Disk parameters set here"),
    Field("ipolicy", "InstancePolicy", O, "How large an instance may be"),
    Field("custom_ipolicy", "CustomInstancePolicy", O, "What of that is set here"),
    Field("node_cnt", "Nodes", N, "How many nodes"),
    Field("node_list", "NodeList", O, "Names of the nodes"),
    Field("pinst_cnt", "Instances", N, "How many instances"),
    Field("pinst_list", "InstanceList", O, "Names of the instances"),
)

_NETWORK = (
    Field("name", "Network", doc="Name"),
    Field("network", "Subnet", doc="CIDR of the first IPv4 subnet"),
    Field("gateway", "Gateway", O, "Gateway of the first IPv4 subnet"),
    Field("network6", "IPv6Subnet", O, "CIDR of the first IPv6 subnet"),
    Field("gateway6", "IPv6Gateway", O, "Gateway of the first IPv6 subnet"),
    Field("subnets", "Subnets", O, "The subnets, each with cidr, gateway, dhcp, name and pools"),
    Field("mac_prefix", "MacPrefix", O, "MAC prefix of its own"),
    Field("free_count", "FreeCount", N, "Free addresses in the pools"),
    Field("reserved_count", "ReservedCount", N, "Addresses in use or reserved in the pools"),
    Field(
        "utilization", "Utilization", Kind.FLOAT, "Percent of the pools in use or reserved, of the fuller IP version"
    ),
    Field("map", "Map", doc="Map of the first pool"),
    Field("group_list", "GroupList", O, "Node groups it is connected to, with mode, link and VLAN"),
    Field("group_cnt", "NodeGroups", N, "How many node groups"),
    Field("inst_list", "InstanceList", O, "Instances that use it"),
    Field("inst_cnt", "Instances", N, "How many instances"),
    Field(
        "address_list",
        "AddressList",
        O,
        "Addresses in use, with instance and number of the NIC; no number where only its guest still has it",
    ),
    Field("external_reservations", "ExternalReservations", doc="Ranges that the administrator reserved"),
)

_JOB = (
    Field("id", "ID", N, "Number"),
    Field("status", "Status", doc="State"),
    Field("priority", "Priority", N, "Smaller goes first"),
    Field("archived", "Archived", B, "Whether it is in the archive"),
    Field("ops", "OpCodes", O, "The opcodes"),
    Field("opresult", "OpCode_result", O, "Results of the opcodes"),
    Field("opstatus", "OpCode_status", O, "States of the opcodes"),
    Field("oplog", "OpCode_log", O, "Logs of the opcodes"),
    Field("opstart", "OpCode_start", O, "When each began to wait for locks"),
    Field("opexec", "OpCode_exec", O, "When each held them"),
    Field("opend", "OpCode_end", O, "When each ended"),
    Field("oppriority", "OpCode_prio", O, "Priorities of the opcodes"),
    Field("summary", "Summary", doc="The opcodes in short"),
    Field("received_ts", "Received", O, "When it came"),
    Field("start_ts", "Start", O, "When it began"),
    Field("end_ts", "End", O, "When it ended"),
)

_LOCK = (
    Field("name", "Name", doc="Level and name"),
    Field("mode", "Mode", doc="shared or exclusive; nothing when free"),
    Field("owner", "Owner", O, "Jobs that hold it"),
    Field("pending", "Pending", O, "Jobs that wait for it"),
    Field("waits", "Waits", O, "Jobs that it keeps waiting, each with those it waits for and why"),
)

_EXPORT = (
    Field("node", "Node", doc="Node that has it", live=True),
    Field("export", "Export", doc="Name of the instance that was exported", live=True),
)

_OS = (
    Field("name", "Name", doc="Name, without a variant"),
    Field("valid", "Valid", B, "Whether every node can install it"),
    Field("node_status", "NodeStatus", O, "What each node has of it"),
    Field("variants", "Variants", O, "Variants"),
    Field("parameters", "Parameters", O, "Parameters it takes"),
    Field("api_versions", "ApiVersions", O, "Versions of the OS interface it speaks"),
    Field("hypervisors", "Hypervisors", O, "Hypervisors it supports; empty for all"),
    Field("hidden", "Hidden", B, "Whether lists leave it out"),
    Field("blacklisted", "Blacklisted", B, "Whether it is not installed"),
    Field("offered", "Offered", O, "Its names that lists show, with each variant"),
    Field("osparams", "OsParameters", O, "Defaults of its parameters"),
    Field("os_hvp", "OsHvp", O, "Defaults of hypervisor parameters with it"),
)


def _by_name(*groups: tuple[Field, ...] | list[Field]) -> dict[str, Field]:
    return {field.name: field for group in groups for field in group}


REGISTRY: dict[str, dict[str, Field]] = {
    "node": _by_name(_NODE, _node_parameters(), _COMMON),
    "instance": _by_name(_INSTANCE, _numbered(), _parameter_fields(), _COMMON),
    "group": _by_name(_GROUP, _node_parameters(), _COMMON),
    "network": _by_name(_NETWORK, _COMMON),
    "job": _by_name(_JOB),
    "lock": _by_name(_LOCK),
    "export": _by_name(_EXPORT),
    "os": _by_name(_OS),
}
"""Resource to field name to field, in the order of the listings."""


_SEED_SPELLINGS = {"hvparam/": "hv/", "beparam/": "be/"}


def canonical(name: str) -> str:
    """Return the registry's name for a field; the seed spells parameters ``hvparam/NAME`` and ``beparam/NAME``."""
    for spelling, ours in _SEED_SPELLINGS.items():
        if name.startswith(spelling):
            return ours + name.removeprefix(spelling)
    return name


def lookup(what: str, names: Sequence[str]) -> list[Field]:
    """Return the fields of a resource by name; one that does not exist comes back with kind ``unknown``."""
    known = REGISTRY[what]
    found = [known.get(canonical(name)) for name in names]
    return [
        msgspec.structs.replace(field, name=name) if field else Field(name, name, Kind.UNKNOWN)
        for name, field in zip(names, found, strict=True)
    ]
