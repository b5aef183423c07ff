"""What Ganeti's command line has and Gantry's has not: options that are refused, each with what serves instead.

Scripts for Ganeti pass options by habit. Options that request nothing here are accepted where the command is declared
(``command.accepted``); an option that requests a feature which Gantry does not have is refused, and ``command`` prints
the sentence of this table instead of "unrecognized arguments". Data alone, in the words of Ganeti's man pages.
"""

_FOLDERS = "file disks are in /srv/gantry/file-storage and shared-file-storage; mount the storage there"
_ADDRESS = "a node has one address, --primary-ip, which also carries the traffic of mirrored disks"
_HARDWARE = "nodes report their processors, memory and disks themselves"
_PLANNED = "an instance that is only planned cannot be recorded; --dry-run shows what a creation would do"
_USERS = "use -H kvm:security_model=pool, which runs each guest as a user of its own"
_IMAGE = "disks are not installed or zeroed by a helper machine; an OS definition installs, see gnt-os list"
_MASTER_ADDRESS = "the master has no address of its own; gnt-cluster master-failover moves the role"
_SIZES = "use --ipolicy-bounds-specs and --ipolicy-std-specs"
_TEMPLATES = "use --enabled-disk-templates"

_CREATE = {
    "--file-storage-dir": _FOLDERS,
    "--forthcoming": _PLANNED,
    "--commit": _PLANNED,
}
_NODE = {"--hypervisor-state": _HARDWARE, "--disk-state": _HARDWARE, "--secondary-ip": _ADDRESS, "-s": _ADDRESS}
_GROUP = {"--hypervisor-state": _HARDWARE, "--disk-state": _HARDWARE}
_SETTINGS = {
    "--file-storage-dir": _FOLDERS,
    "--shared-file-storage-dir": _FOLDERS,
    "--gluster-storage-dir": "there is no disk template gluster; mount the volume and use sharedfile",
    "--master-netmask": _MASTER_ADDRESS,
    "--uid-pool": _USERS,
    "--hypervisor-state": _HARDWARE,
    "--disk-state": _HARDWARE,
    "--install-image": _IMAGE,
    "--zeroing-image": _IMAGE,
    "--compression-tools": "each node uses its own; gnt-backup export --compress selects one",
    "--user-shutdown": "use -H kvm:user_shutdown=true",
}

REFUSED: dict[str, dict[str, str]] = {
    "gnt-cluster init": {
        **_SETTINGS,
        "--secondary-ip": _ADDRESS,
        "-s": _ADDRESS,
        "--no-lvm-storage": _TEMPLATES,
        "--no-drbd-storage": _TEMPLATES,
        **dict.fromkeys(
            (f"--specs-{size}" for size in ("cpu-count", "disk-count", "disk-size", "mem-size", "nic-count")), _SIZES
        ),
    },
    "gnt-cluster modify": {
        **_SETTINGS,
        "--no-lvm-storage": _TEMPLATES,
        "--no-drbd-storage": _TEMPLATES,
        "--add-uids": _USERS,
        "--remove-uids": _USERS,
        "--reserved-lvs": "volumes that Gantry did not make are never touched; verify lists them under orphan volumes",
        "--instance-communication-network": "there is no network between an instance and its node",
    },
    "gnt-cluster verify": {
        "--node-group": "all node groups are checked; each line names its object",
        "-g": "all node groups are checked; each line names its object",
        "--ignore-errors": "no error counts as a warning; --error-codes prints a code to filter by",
        "-I": "no error counts as a warning; --error-codes prints a code to filter by",
        "--debug-simulate-errors": "errors are not simulated; gantry simulate runs clusters with faults",
    },
    "gnt-node add": {
        **_NODE,
        "--readd": "a node that lost its files joins again by a new token: gnt-node remove, then gnt-node add",
        "--force-join": "remove the machine from its present cluster first, with gnt-node remove there",
    },
    "gnt-node modify": {
        **_NODE,
        "--node-powered": "the power state of nodes is not recorded; mark a node that is down with --offline yes",
    },
    "gnt-group add": _GROUP,
    "gnt-group modify": _GROUP,
    "gnt-instance add": _CREATE,
    "gnt-instance modify": {
        "--file-storage-dir": _FOLDERS,
        "--os-type": "use gnt-instance reinstall -o OS",
        "-o": "use gnt-instance reinstall -o OS",
        "--new-primary": "use gnt-instance failover, migrate or move with -n NODE",
    },
    "gnt-backup export": {"--zero-free-space": _IMAGE},
    "gnt-backup import": {
        **_CREATE,
        "--identify-defaults": "the settings of the export are kept; gnt-instance modify -B name=default resets one",
    },
}
"""Maps a command to its refused options, each with a sentence that says why, or what to use."""
