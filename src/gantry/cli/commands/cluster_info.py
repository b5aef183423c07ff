"""The document of ``gnt-cluster info``, with the settings in words (contracts/commands.md#fixed-outputs)."""

from gantry.cli.framework import opcode_fields
from gantry.cli.output import answers, documents

_REPLICATION = {
    "seed": "the master continues alone when the others are silent",
    "majority": "a change needs more than half of the master candidates",
    "all": "a change needs all master candidates",
}
_STRAY_GUESTS = {"report": "gnt-cluster verify lists them", "stop": "they are stopped", "adopt": "they are recorded"}
_READING = {"all": "who may read sees everything", "rules": "users see what access rules let them see"}

PARAMETERS = {
    **{setting.reported_as: setting.label for setting in opcode_fields.SETTINGS.values() if setting.label},
    "max_tracked_jobs": "maximal number of jobs simultaneously tracked by the scheduler",
    "master_netmask": "master netmask",
    "file_storage_dir": "file storage path",
    "shared_file_storage_dir": "shared file storage path",
    "primary_ip_version": "primary ip version",
    "enabled_disk_templates": "enabled disk templates",
    "ipam_driver": "IPAM driver",
    "ipam_database": "database of addresses",
    "tenant_network_types": "order of network types",
}


def document(record: answers.Record) -> answers.Record:
    """Describe the cluster."""
    default, own = record.get("default_hypervisor"), answers.record(record.get("own_parameters"))
    architecture = " ".join(str(part) for part in reversed(answers.sequence(record.get("architecture"))))
    return {
        "Cluster name": record.get("name"),
        "Cluster UUID": record.get("uuid"),
        "Creation time": documents.moment(record.get("ctime")),
        "Modification time": documents.moment(record.get("mtime")),
        "Master node": record.get("master"),
        "Architecture (this node)": architecture,
        "Tags": ", ".join(str(tag) for tag in answers.sequence(record.get("tags"))) or documents.Verbatim("(none)"),
        "Default hypervisor": default,
        "Enabled hypervisors": ", ".join(str(name) for name in answers.sequence(record.get("enabled_hypervisors"))),
        "Hypervisor parameters": {
            str(name): _set_first(values, answers.record(own.get("hvparams")).get(name))
            for name, values in answers.record(record.get("hvparams")).items()
        },
        "OS-specific hypervisor parameters": record.get("os_hvp") or {},
        "OS parameters": record.get("osparams") or {},
        "Hidden OSes": answers.sequence(record.get("hidden_os")),
        "Blacklisted OSes": answers.sequence(record.get("blacklisted_os")),
        "Allow-lists": record.get("allowed") or {},
        "Cluster parameters": {
            word: _cluster_parameter(key, record[key])
            for key, word in PARAMETERS.items()
            if record.get(key) not in (None, "")
        },
        "Default node parameters": _set_first(record.get("ndparams"), own.get("ndparams")),
        **{
            title: {
                str(name): _set_first(values, answers.record(own.get(key)).get(name))
                for name, values in answers.record(record.get(key)).items()
            }
            for title, key in (
                ("Default instance parameters", "beparams"),
                ("Default nic parameters", "nicparams"),
                ("Default disk parameters", "diskparams"),
            )
        },
        "Instance policy - limits for instances": record.get("ipolicy") or {},
    }


def _set_first(actual: object, own: object) -> dict[str, object]:
    """Return parameters as ``answers.filled`` does, those that the cluster sets before the defaults."""
    own_values = answers.record(own)
    return dict(sorted(answers.filled(actual, own).items(), key=lambda pair: pair[0] not in own_values))


def _cluster_parameter(key: str, value: object) -> object:
    """Return a setting of the cluster in words."""
    match key, value:
        case "replication", str():
            return f"{value} ({_REPLICATION.get(value, value)})"
        case "stray_guests", str():
            return f"{value} ({_STRAY_GUESTS.get(value, value)})"
        case "reading", str():
            return f"{value} ({_READING.get(value, value)})"
        case "ipam_hold_time", int():
            return f"{value} s" if value else documents.Verbatim("none")
        case "network_thresholds", [warning, error]:
            return f"warning at {warning} %, error at {error} %"
        case "default_disk_size", int():
            return f"{value} MiB" if value else documents.Verbatim("none")
        case "tenant_network_types", list():
            return ", ".join(map(str, value)) or documents.Verbatim("all types")
        case "enabled_disk_templates", list():
            return ", ".join(map(str, value))
        case _, bool():
            return documents.Verbatim("yes" if value else "no")
    return value
