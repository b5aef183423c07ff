"""The registry of query fields: every field of every resource, with its title, kind and description.

The names are those that existing clients use (contracts/query.md#fields). ``operations.query`` has a getter for each
field; a test compares both. A ``live`` field needs an answer from a node.
"""

import difflib
from collections.abc import Sequence

import msgspec

from gantry.model import parameters
from gantry.model.fields import instance, network
from gantry.model.fields.field import B, Field, Kind, N, O, ResultStatus, Shape, T, U, kind_of
from gantry.model.fields.instance import DISKS, NICS

__all__ = ["DISKS", "NICS", "REGISTRY", "Field", "Kind", "ResultStatus", "Shape", "canonical", "lookup"]

_COMMON = (
    Field("ctime", "CTime", T, "Time of creation"),
    Field("mtime", "MTime", T, "Time of the last change"),
    Field("uuid", "UUID", doc="UUID"),
    Field("serial_no", "SerialNo", N, "Number of changes"),
    Field("tags", "Tags", O, "Tags", form=Shape.TEXTS),
)

_NODE = (
    Field("name", "Node", doc="Name"),
    Field("role", "Role", doc="M master, C candidate, R regular, D drained, O offline"),
    Field("drained", "Drained", B, "Whether the node is drained: it gets no new instances"),
    Field("offline", "Offline", B, "Whether the node is marked offline: the master does not contact it"),
    Field("master", "IsMaster", B, "Whether the node is the master"),
    Field("master_candidate", "MasterC", B, "Whether the node is a master candidate, with a copy of the state"),
    Field("master_capable", "MasterCapable", B, "Whether the node may become a master candidate"),
    Field("vm_capable", "VMCapable", B, "Whether the node may run instances"),
    Field("pip", "PrimaryIP", doc="Address of the node daemon"),
    Field("sip", "SecondaryIP", doc="Address for replication"),
    Field("group", "Group", doc="Node group"),
    Field("group.uuid", "GroupUUID", doc="UUID of the node group"),
    Field("pinst_cnt", "Pinst", N, "Number of instances with this primary node"),
    Field("sinst_cnt", "Sinst", N, "Number of instances with this secondary node"),
    Field("pinst_list", "PriInstances", O, "Names of the instances with this primary node", form=Shape.TEXTS),
    Field("sinst_list", "SecInstances", O, "Names of the instances with this secondary node", form=Shape.TEXTS),
    Field("detached_disks", "DetachedDisks", O, "UUIDs and names of the detached disks on the node", form=Shape.TEXTS),
    Field("ndparams", "NodeParameters", O, "Node parameters, filled", form=Shape.MAP),
    Field("custom_ndparams", "CustomNodeParameters", O, "Node parameters set for the node itself", form=Shape.MAP),
    Field("powered", "Powered", B, "Whether the node has power; always unknown"),
    Field("hv_state", "HypervisorState", O, "Hypervisor state; always unknown", form=Shape.MAP),
    Field("disk_state", "DiskState", O, "Disk state; always unknown", form=Shape.MAP),
    Field("accelerator", "Accelerator", doc="Accelerator with which a test guest ran: kvm or tcg"),
    Field("accelerator_reason", "AccelReason", doc="Why that accelerator is used"),
    Field("certificate_end", "CertificateEnd", T, "When the certificate of the node ends"),
    Field(
        "stray_guests",
        "StrayGuests",
        O,
        "Names of guests that run here, but not by the state",
        live=True,
        form=Shape.TEXTS,
    ),
    Field("bootid", "BootID", doc="Changes with each boot", live=True),
    Field("cnodes", "CNodes", N, "NUMA nodes", live=True),
    Field("cnos", "CNOs", N, "Processors that the node itself uses", live=True),
    Field("csockets", "CSockets", N, "Processor sockets", live=True),
    Field("ctotal", "CTotal", N, "Processors", live=True),
    Field("dfree", "DFree", U, "Free disk space", live=True),
    Field("dtotal", "DTotal", U, "Disk space", live=True),
    Field("mfree", "MFree", U, "Free memory", live=True),
    Field("mnode", "MNode", U, "Memory that the node itself uses", live=True),
    Field("mtotal", "MTotal", U, "Memory", live=True),
    Field("spfree", "SpFree", N, "Free spindles; always all, as used spindles are not counted", live=True),
    Field("sptotal", "SpTotal", N, "Spindles", live=True),
)


def _node_parameters() -> list[Field]:
    return [
        Field(f"ndp/{name}", "".join(word.capitalize() for word in name.split("_")), kind_of(p, name), p.text)
        for name, p in parameters.NODE.items()
    ]


_GROUP = (
    Field("name", "Group", doc="Name"),
    Field("alloc_policy", "AllocPolicy", doc="Whether the allocator may choose the group for new instances"),
    Field("ndparams", "NDParams", O, "Node parameters, filled", form=Shape.MAP),
    Field("custom_ndparams", "CustomNDParams", O, "Node parameters set for the group itself", form=Shape.MAP),
    Field("diskparams", "DiskParameters", O, "Disk parameters by disk template, filled", form=Shape.MAP),
    Field("custom_diskparams", "CustomDiskParameters", O, "Disk parameters set for the group itself", form=Shape.MAP),
    Field("ipolicy", "InstancePolicy", O, "Instance policy, filled", form=Shape.MAP),
    Field("custom_ipolicy", "CustomInstancePolicy", O, "Instance policy set for the group itself", form=Shape.MAP),
    Field("node_cnt", "Nodes", N, "Number of nodes"),
    Field("node_list", "NodeList", O, "Names of the nodes", form=Shape.TEXTS),
    Field("pinst_cnt", "Instances", N, "Number of instances"),
    Field("pinst_list", "InstanceList", O, "Names of the instances", form=Shape.TEXTS),
)

_JOB = (
    Field("id", "ID", N, "Number"),
    Field("status", "Status", doc="State"),
    Field("priority", "Priority", N, "Priority; a smaller number runs first"),
    Field("archived", "Archived", B, "Whether the job is in the archive"),
    Field("ops", "OpCodes", O, "The opcodes", form=Shape.LIST),
    Field("opresult", "OpCode_result", O, "Results of the opcodes", form=Shape.LIST),
    Field("opstatus", "OpCode_status", O, "States of the opcodes", form=Shape.TEXTS),
    Field("oplog", "OpCode_log", O, "Logs of the opcodes", form=Shape.LIST),
    Field("opstart", "OpCode_start", O, "When each opcode began to wait for locks", form=Shape.LIST),
    Field("opexec", "OpCode_exec", O, "When each opcode had acquired its locks", form=Shape.LIST),
    Field("opend", "OpCode_end", O, "When each opcode ended", form=Shape.LIST),
    Field("oppriority", "OpCode_prio", O, "Priorities of the opcodes", form=Shape.NUMBERS),
    Field("summary", "Summary", doc="Summary of the opcodes"),
    Field("dry_run", "DryRun", B, "Whether the job only plans, and changes nothing"),
    Field("user", "User", doc="Who submitted the job: a user, or a program of the cluster such as the watcher"),
    Field("request", "Request", doc="Id of the request that submitted the job, as logs have it; empty for commands"),
    Field("error", "Error", doc="First line of the error with which the job failed"),
    Field("received_ts", "Received", O, "When the job was submitted", form=Shape.TIME),
    Field("start_ts", "Start", O, "When the job started", form=Shape.TIME),
    Field("end_ts", "End", O, "When the job ended", form=Shape.TIME),
)

_LOCK = (
    Field("name", "Name", doc="Level and name"),
    Field("mode", "Mode", doc="shared or exclusive; empty if the lock is free"),
    Field("owner", "Owner", O, "Jobs that hold the lock", form=Shape.TEXTS),
    Field("pending", "Pending", O, "Jobs that wait for the lock", form=Shape.LIST),
    Field(
        "waits",
        "Waits",
        O,
        "Jobs that wait for the lock, each with the jobs that block it and the reason",
        form=Shape.LIST,
    ),
)

_ACCESS = (
    Field("who", "Who", doc="User or group: user:NAME or group:NAME"),
    Field("role", "Role", doc="Role: viewer, operator, admin or network-admin"),
    Field(
        "on", "On", doc="Object of the rule: cluster, group:NAME, tag:TAG, project:ID, instance:NAME or network:NAME"
    ),
    Field("uuid", "UUID", doc="UUID"),
    Field("ctime", "CTime", T, "Time of creation"),
)

_TOKEN = (
    Field("name", "Token", doc="User and name: USER:NAME"),
    Field("user", "User", doc="User of the remote API whose token it is"),
    Field("label", "Name", doc="Name, unique among the tokens of the user"),
    Field("allows", "Allows", doc="What it allows of what its user may: everything, read, or roles on objects"),
    Field("end", "End", T, "When it ends; unavailable if it has no end"),
    Field("id", "Id", doc="Public part of its text, after gantry_"),
    Field("uuid", "UUID", doc="UUID"),
    Field("ctime", "CTime", T, "Time of creation"),
)

_WEBHOOK = (
    Field("name", "Webhook", doc="Name"),
    Field("origin", "Receiver", doc="URL of the receiver without its path, which may be a secret"),
    Field("events", "Events", O, "Events that it gets, each as KIND or KIND.CHANGE; empty for all", form=Shape.TEXTS),
    Field("enabled", "Enabled", B, "Whether events are sent; otherwise they are kept for later"),
    Field("status", "Status", doc="ok, failing, behind, or disabled"),
    Field("lag", "Lag", N, "Number of changes of the state after its position, if it fails, is behind or is disabled"),
    Field("pruned", "Pruned", N, "Number of changes after its position that the journal does not keep any more"),
    Field("waiting_since", "WaitingSince", T, "Time of the first event that the receiver has not accepted"),
    Field("failure", "Failure", doc="Why the receiver has not accepted it"),
    Field("position", "Position", N, "Serial up to which the receiver has all its events; may be a few seconds old"),
    Field("uuid", "UUID", doc="UUID"),
    Field("ctime", "CTime", T, "Time of creation"),
)

_EXPORT = (
    Field("node", "Node", doc="Node with the export", live=True),
    Field("export", "Export", doc="Name of the exported instance", live=True),
)

_OS = (
    Field("name", "Name", doc="Name, without a variant"),
    Field("valid", "Valid", B, "Whether every node can install it"),
    Field("node_status", "NodeStatus", O, "Paths and status of the operating system on each node", form=Shape.LIST),
    Field("variants", "Variants", O, "Variants", form=Shape.TEXTS),
    Field("parameters", "Parameters", O, "Supported parameters", form=Shape.LIST),
    Field("api_versions", "ApiVersions", O, "Supported versions of the OS interface", form=Shape.LIST),
    Field("hypervisors", "Hypervisors", O, "Supported hypervisors; empty for all", form=Shape.TEXTS),
    Field("hidden", "Hidden", B, "Whether lists omit the operating system"),
    Field("blacklisted", "Blacklisted", B, "Whether the operating system must not be installed"),
    Field("offered", "Offered", O, "Names in lists, one for each variant", form=Shape.TEXTS),
    Field("osparams", "OsParameters", O, "Default parameters", form=Shape.MAP),
    Field("os_hvp", "OsHvp", O, "Default hypervisor parameters of its instances", form=Shape.MAP),
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
    "access": _by_name(_ACCESS),
    "token": _by_name(_TOKEN),
    "webhook": _by_name(_WEBHOOK),
    "job": _by_name(_JOB),
    "lock": _by_name(_LOCK),
    "export": _by_name(_EXPORT),
    "os": _by_name(_OS),
}
"""Maps a resource and a field name to the field, in the order of ``list-fields``."""


_DESIGN_SPELLINGS = {"hvparam/": "hv/", "beparam/": "be/"}


def canonical(name: str) -> str:
    """Return the registry's name of a field; the 2.0 design writes ``hvparam/NAME`` and ``beparam/NAME``.

    See contracts/query.md#fields.
    """
    for spelling, prefix in _DESIGN_SPELLINGS.items():
        if name.startswith(spelling):
            return prefix + name.removeprefix(spelling)
    return name


def nearest(resource: str, name: str) -> str:
    """Return a hint for the name of a field that does not exist."""
    close = difflib.get_close_matches(name, REGISTRY[resource], n=1)
    return f"did you mean {close[0]}?" if close else "list-fields shows the known fields"


def lookup(resource: str, names: Sequence[str]) -> list[Field]:
    """Return the fields of a resource by name; one that does not exist is ``unknown``, with a hint as its ``doc``."""
    known = REGISTRY[resource]
    fields = [known.get(canonical(name)) for name in names]
    return [
        msgspec.structs.replace(field, name=name) if field else Field(name, name, Kind.UNKNOWN, nearest(resource, name))
        for name, field in zip(names, fields, strict=True)
    ]
