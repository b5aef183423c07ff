"""What Ganeti's command line has and Gantry's has not: programs, commands and options, each with what serves instead.

Scripts for Ganeti pass options by habit. Options that request nothing here are accepted where the command is declared
(``command.accepted``); an option that requests a feature which Gantry does not have is refused, and ``command`` prints
the sentence of this table instead of "unrecognized arguments". ``main`` does the same with commands and programs.
Data alone, in the words of Ganeti's man pages.
"""

_MASTER_IP = "the master has no address of its own; gnt-cluster getmaster prints the node that has the role"
_POWER = "power is switched outside of the cluster; gnt-node modify --offline yes marks a node that is down"
_ALLOCATOR = "gnt-instance add --dry-run shows the nodes that an allocator chooses"
_OWNERS = "gnt-network map shows the addresses of a network, and gnt-network history their owners"

PROGRAMS = {
    "gnt-storage": "providers of the disk template ext are folders of scripts in /srv/gantry/extstorage on each node",
    "gnt-filter": "jobs are not filtered; gnt-cluster queue drain refuses new ones, gnt-job change-priority reorders",
}
"""Maps a program to a sentence."""

COMMANDS: dict[str, dict[str, str]] = {
    "gnt-cluster": {
        "rename": "the name of a cluster is chosen by gnt-cluster init, and cannot be changed",
        "repair-disk-sizes": "disks have the size that is recorded; gnt-instance grow-disk --absolute sets another",
        "epo": "gnt-instance shutdown --all stops all instances; power is switched outside of the cluster",
        "activate-master-ip": _MASTER_IP,
        "deactivate-master-ip": _MASTER_IP,
    },
    "gnt-node": {
        "powercycle": _POWER,
        "power": _POWER,
        "health": "gnt-cluster verify checks all nodes, and gantry doctor examines the machine it runs on",
        "list-drbd": "gnt-instance info shows the nodes, minors and port of each mirrored disk",
        "restricted-command": "gnt-cluster command -n NODE COMMAND runs a command by SSH",
    },
    "gnt-instance": {
        "snapshot": "gnt-backup export -n NODE INSTANCE copies the disks, and gnt-backup import creates an instance",
    },
    "gnt-debug": {
        "iallocator": _ALLOCATOR,
        "allocator": _ALLOCATOR,
        "test-jobqueue": "gnt-debug delay and gnt-debug submit-job test the job queue",
        "test-osparams": "gnt-os modify -O NAME=VALUE checks parameters on the nodes before it sets them",
        "wconfd": "gantry-masterd keeps the configuration; gantry export-config prints it, gnt-debug locks the locks",
        "metad": "there is no metadata daemon; OS parameters reach the scripts of an OS definition as variables",
    },
    "gantry": {
        "network": "see gnt-network --help",
        "subnet": "subnets are part of a network: gnt-network modify --subnet, gnt-network info",
        "pool": "pools are part of a network: gnt-network modify --pool, gnt-network map",
        "address": _OWNERS,
        "ip": _OWNERS,
        "port": "ports belong to Neutron's API: openstack port list",
        **{
            noun: f"see gnt-{noun} --help"
            for noun in ("cluster", "node", "group", "instance", "os", "backup", "job", "debug")
        },
    },
}
"""Maps a program to commands that it does not have, each with a sentence; in ``gantry`` people look for all."""

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
