"""The query field registry: every field of every resource, with the title, kind and text that lists show.

The names are those that existing clients ask for (contracts/query.md#fields). ``operations.query`` has a getter
for each; a test holds the two together. A field that is ``live`` needs an answer from a node.
"""

from collections.abc import Sequence

import msgspec

from gantry.model import parameters
from gantry.model.fields import instance, network
from gantry.model.fields.field import B, Field, Kind, N, O, ResultStatus, T, U, kind_of
from gantry.model.fields.instance import DISKS, NICS

__all__ = ["DISKS", "NICS", "REGISTRY", "Field", "Kind", "ResultStatus", "canonical", "lookup"]

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


def _node_parameters() -> list[Field]:
    return [
        Field(f"ndp/{name}", "".join(word.capitalize() for word in name.split("_")), kind_of(p, name), p.text)
        for name, p in parameters.NODE.items()
    ]


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
    "instance": _by_name(instance.INSTANCE, instance.numbered(), instance.parameter_fields(), _COMMON),
    "group": _by_name(_GROUP, _node_parameters(), _COMMON),
    "network": _by_name(network.NETWORK, _COMMON),
    "port": _by_name(network.PORT, _COMMON),
    "subnet": _by_name(network.SUBNET, _COMMON),
    "subnetpool": _by_name(network.SUBNET_POOL, _COMMON),
    "segmentrange": _by_name(network.SEGMENT_RANGE, _COMMON),
    "job": _by_name(_JOB),
    "lock": _by_name(_LOCK),
    "export": _by_name(_EXPORT),
    "os": _by_name(_OS),
}
"""Resource to field name to field, in the order of the listings."""


_DESIGN_SPELLINGS = {"hvparam/": "hv/", "beparam/": "be/"}


def canonical(name: str) -> str:
    """Return the registry's name for a field; ``hvparam/NAME`` and ``beparam/NAME`` are spellings of the 2.0 design.

    See contracts/query.md#fields.
    """
    for spelling, ours in _DESIGN_SPELLINGS.items():
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
