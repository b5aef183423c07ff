"""The query fields of instances."""

from gantry.model import parameters
from gantry.model.fields.field import B, Field, Kind, N, O, Shape, U, kind_of

DISKS = 16
NICS = 8
"""The number of disks and NICs with numbered fields (``disk.size/N``, ``nic.ip/N``)."""

INSTANCE = (
    Field("name", "Instance", doc="Name"),
    Field("admin_state", "InstanceState", doc="Admin state: up, down or offline"),
    Field("admin_state_source", "InstanceStateSource", doc="Who set the admin state: always admin"),
    Field("admin_up", "Autostart", B, "Whether the admin state is up"),
    Field("disks_active", "DisksActive", B, "Whether the disks should be active"),
    Field("forthcoming", "Forthcoming", B, "Whether the instance is only planned: always no"),
    Field("hypervisor", "Hypervisor", doc="Hypervisor"),
    Field("os", "OS", doc="Operating system"),
    Field("pnode", "Primary_node", doc="Primary node"),
    Field("pnode.group", "PrimaryNodeGroup", doc="Node group of the primary node"),
    Field("pnode.group.uuid", "PrimaryNodeGroupUUID", doc="UUID of the primary node's group"),
    Field("snodes", "Secondary_Nodes", O, "Secondary nodes, which have copies of the disks", form=Shape.TEXTS),
    Field("snodes.group", "SecondaryNodesGroups", O, "Node groups of the secondary nodes", form=Shape.TEXTS),
    Field("snodes.group.uuid", "SecondaryNodesGroupsUUID", O, "UUIDs of the secondary nodes' groups", form=Shape.TEXTS),
    Field("disk_template", "Disk_template", doc="Disk template"),
    Field("disk_usage", "DiskUsage", U, "Storage that the disks use"),
    Field("network_port", "Network_port", O, "Port of the console", form=Shape.NUMBER),
    Field("hvparams", "HypervisorParameters", O, "Hypervisor parameters, filled", form=Shape.MAP),
    Field("beparams", "BackendParameters", O, "Backend parameters, filled", form=Shape.MAP),
    Field("osparams", "OsParameters", O, "Operating system parameters", form=Shape.MAP),
    Field(
        "custom_hvparams",
        "CustomHypervisorParameters",
        O,
        "Hypervisor parameters set for the instance itself",
        form=Shape.MAP,
    ),
    Field(
        "custom_beparams",
        "CustomBackendParameters",
        O,
        "Backend parameters set for the instance itself",
        form=Shape.MAP,
    ),
    Field(
        "custom_osparams",
        "CustomOsParameters",
        O,
        "Operating system parameters set for the instance itself",
        form=Shape.MAP,
    ),
    Field("custom_nicparams", "CustomNicParameters", O, "Parameters set for each NIC", form=Shape.LIST),
    Field("be/memory", "ConfigMaxMem", U, "Memory"),
    Field("vcpus", "ConfigVCPUs", N, "Virtual processors"),
    Field("disk.count", "Disks", N, "Number of disks"),
    Field("disk.sizes", "Disk_sizes", O, "Sizes of the disks", form=Shape.NUMBERS),
    Field("disk.spindles", "Disk_spindles", O, "Spindles of the disks; not counted", form=Shape.NUMBERS),
    Field("disk.names", "Disk_names", O, "Names of the disks", form=Shape.TEXTS),
    Field("disk.uuids", "Disk_UUIDs", O, "UUIDs of the disks", form=Shape.TEXTS),
    Field("sda_size", "Disk/0", U, "Size of the first disk"),
    Field("sdb_size", "Disk/1", U, "Size of the second disk"),
    Field("nic.count", "NICs", N, "Number of NICs"),
    Field("nic.macs", "NIC_MACs", O, "MAC addresses", form=Shape.TEXTS),
    Field("nic.ips", "NIC_IPs", O, "Addresses, a list for each NIC", form=Shape.TEXTS),
    Field("nic.names", "NIC_Names", O, "Names of the NICs", form=Shape.TEXTS),
    Field("nic.uuids", "NIC_UUIDs", O, "UUIDs of the NICs", form=Shape.TEXTS),
    Field("nic.modes", "NIC_modes", O, "Modes of the NICs", form=Shape.TEXTS),
    Field("nic.links", "NIC_links", O, "Links of the NICs", form=Shape.TEXTS),
    Field("nic.vlans", "NIC_VLANs", O, "VLANs of the NICs", form=Shape.TEXTS),
    Field("nic.bridges", "NIC_bridges", O, "Bridges of the NICs", form=Shape.TEXTS),
    Field("nic.networks", "NIC_networks", O, "UUIDs of the NICs' networks", form=Shape.TEXTS),
    Field("nic.networks.names", "NIC_networks_names", O, "Names of the NICs' networks", form=Shape.TEXTS),
    Field("ip", "IP_address", doc="First address of the first NIC"),
    Field("mac", "MAC_address", doc="MAC address of the first NIC"),
    Field("bridge", "Bridge", doc="Bridge of the first NIC"),
    Field("nic_mode", "NIC_Mode", doc="Mode of the first NIC"),
    Field("nic_link", "NIC_Link", doc="Link of the first NIC"),
    Field("nic_network", "NIC_Network", doc="Network of the first NIC"),
    Field("project", "Project", doc="Project of the ports that the NICs are made of"),
    Field("status", "Status", doc="Status: the actual state, compared with the admin state", live=True),
    Field("oper_state", "Running", B, "Whether the instance runs", live=True),
    Field("oper_ram", "Memory", U, "Actual memory", live=True),
    Field("oper_vcpus", "VCPUs", N, "Actual number of virtual processors", live=True),
    Field("console", "Console", O, "How to connect to the console", live=True, form=Shape.MAP),
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


_FORMS = {O: Shape.ADDRESSES}


def numbered() -> list[Field]:
    """Return the fields of the first ``DISKS`` disks and ``NICS`` NICs, by number."""
    disks = [
        Field(f"disk.{key}/{i}", title.format(i), kind, f"The {key} of disk {i}")
        for i in range(DISKS)
        for key, title, kind in _NUMBERED_DISK
    ]
    return disks + [
        Field(f"nic.{key}/{i}", title.format(i), kind, f"The {key} of NIC {i}", form=_FORMS.get(kind))
        for i in range(NICS)
        for key, title, kind in _NUMBERED_NIC
    ]


def parameter_fields() -> list[Field]:
    """Return a field for each backend and hypervisor parameter, filled."""
    backend = [
        Field(f"be/{name}", f"be/{name}", kind_of(parameter, name), parameter.text)
        for name, parameter in parameters.BACKEND.items()
    ]
    names: dict[str, parameters.Parameter] = {}
    for known in parameters.HYPERVISORS.values():
        names = known | names
    hypervisor = [Field(f"hv/{name}", f"hv/{name}", kind_of(p, name), p.text) for name, p in names.items()]
    return backend + hypervisor
