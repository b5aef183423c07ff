"""The settings of the cluster, each declared once: default, limits, text, label and option.

The cluster (``model.cluster``) takes the defaults from here, ``gnt-cluster modify`` and ``init`` their options and help
texts, ``gnt-cluster info`` its labels, and the reference pages their texts. A setting is a field of the cluster and of
``ClusterSetParams``, with its type; a test compares both with this page. Settings that are declared elsewhere: lists of
names, the defaults of the classes in ``model.parameters``, and the IPAM driver.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from gantry.model import base

Default = TypeVar("Default", str, int, bool, tuple[int, int], base.Parameters)


class Replication(StrEnum):
    """Which copies must hold a change before it is acknowledged (explanation/replication.md)."""

    MAJORITY = "majority"
    ALL = "all"
    SEED = "seed"

    @property
    def continues_alone(self) -> bool:
        """Return whether the master acknowledges changes, and commands nodes, while the other candidates are silent."""
        return self is Replication.SEED

    def copies_needed(self, candidates: int) -> int:
        """Return how many copies are enough of this number of candidates; the master and its copy count.

        A policy that continues alone needs them as long as the other candidates answer.
        """
        return candidates if self is Replication.ALL else candidates // 2 + 1

    def is_weaker(self, than: "Replication") -> bool:
        """Return whether fewer copies are enough than under another policy."""
        order = (Replication.SEED, Replication.MAJORITY, Replication.ALL)
        return order.index(self) < order.index(than)


class StrayGuests(StrEnum):
    """What happens to a guest that runs although the state does not have it running there.

    See explanation/replication.md#after-the-heal.
    """

    REPORT = "report"
    STOP = "stop"
    ADOPT = "adopt"


class Reading(StrEnum):
    """What users without administration may read: everything, or what access rules let them see (``model.access``)."""

    ALL = "all"
    RULES = "rules"


@dataclass(frozen=True)
class Setting(Generic[Default]):
    """A setting, which has the type of its default and may be limited by choices, minimum and maximum.

    ``text`` is that of the reference pages and of the option's help, or ``option_text`` is, if the option accepts more
    than the opcode. The option is ``option``, with one letter as ``letter``; without an option, another one sets the
    setting. ``gnt-cluster info`` shows it after ``label``, and queries return it as ``reported_as``, by default under
    its own name.
    """

    default: Default
    text: str
    label: str = ""
    option: str = ""
    letter: str = ""
    metavar: str = ""
    option_text: str = ""
    reported_as: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


class Settings:
    """The declarations, in the order of the options; the name of each is that of the field."""

    mac_prefix = Setting(
        "aa:00:00",
        "Set the first half of generated MAC addresses, as in aa:00:00",
        label="mac prefix",
        option="--mac-prefix",
        letter="-m",
        metavar="PREFIX",
    )
    candidate_pool_size = Setting(
        10,
        "Set how many nodes keep a copy of the state, the master included",
        label="candidate pool size",
        option="--candidate-pool-size",
        letter="-C",
        metavar="COUNT",
        minimum=1,
        maximum=1000,
    )
    replication = Setting(
        "",
        "Acknowledge a change when a majority of master candidates, all, or as many as answer (seed) have it",
        label="replication of changes",
        option="--replication",
        metavar="POLICY",
        choices=tuple(Replication),
    )
    journal_retention = Setting(
        "30d,4G",
        "Keep the journal, and with it the history, up to this age and size, as in 30d,4G, or forever",
        label="retention of the journal",
        option="--journal-retention",
        metavar="AGE,SIZE",
    )
    archive_retention = Setting(
        "30d,2G",
        "Keep archived jobs up to this age and size, as in 30d,2G, or forever",
        label="retention of archived jobs",
        option="--archive-retention",
        metavar="AGE,SIZE",
    )
    stray_guests = Setting(
        StrayGuests.REPORT.value,
        "Set what the watcher does with guests that the state does not have: report, stop, adopt",
        label="stray guests",
        option="--stray-guests",
        metavar="RULE",
        choices=tuple(StrayGuests),
    )
    reading = Setting(
        Reading.ALL.value,
        "Let users read all objects, or those that access rules let them see: all, rules",
        label="reading",
        option="--reading",
        metavar="RULE",
        choices=tuple(Reading),
    )
    max_running_jobs = Setting(
        1000,
        "Limit how many jobs run at the same time",
        label="maximal number of jobs running simultaneously",
        option="--max-running-jobs",
        metavar="COUNT",
        minimum=1,
        maximum=20_000,
    )
    ipam_hold_time = Setting(
        0,
        "Quarantine time of released addresses, in seconds; 0 for none",
        label="hold time of addresses",
        option="--ipam-hold-time",
        metavar="TIME",
        option_text="Quarantine released addresses for this time, as in 3600 or 1h; 0 by default",
        minimum=0,
        maximum=10 * 366 * 86400,
    )
    network_thresholds = Setting(
        (80, 95),
        "Let verify warn, and fail, when this percentage of a network's pools is in use; 80,95 by default",
        label="network thresholds",
        option="--network-thresholds",
        metavar="WARNING,CRITICAL",
    )
    default_iallocator = Setting(
        "",
        "Set the program that places instances, such as hail; empty for the built-in allocator",
        label="default instance allocator",
        option="--default-iallocator",
        letter="-I",
        metavar="NAME",
    )
    default_iallocator_params = Setting[base.Parameters](
        {},
        "Set the options of the default allocator program, as in algorithm=tight",
        option="--default-iallocator-params",
        metavar="PARAMS",
    )
    default_disk_size = Setting(
        0,
        "Size of a disk without a size, in MiB or with a unit; 0 for no default",
        label="default disk size",
        minimum=0,
    )
    vg_name = Setting(
        "xenvg",
        "Set the volume group of disks that name none; xenvg by default",
        label="lvm volume group",
        option="--vg-name",
        metavar="GROUP",
        reported_as="volume_group_name",
    )
    prealloc_wipe_disks = Setting(
        False,
        "Overwrite new disks with zeros before use: yes or no",
        label="preallocation wipe disks",
        option="--prealloc-wipe-disks",
        metavar="YES|NO",
    )
    segment_ranges = Setting(
        False,
        "Allow segment ranges besides the default ranges of segments.ini or gantry segment: yes or no",
        label="segment ranges of projects",
        option="--segment-ranges",
        metavar="YES|NO",
    )
    segment_fallback = Setting(
        True,
        "Let a project without free ids in its own segment ranges use the shared ranges: yes or no",
        label="shared segment ranges after those of a project",
        option="--segment-fallback",
        metavar="YES|NO",
    )
    master_netdev = Setting(
        "",
        "Set the network device of the master's own address",
        label="master netdev",
        option="--master-netdev",
        metavar="DEVICE",
    )


AnySetting = Setting[str] | Setting[int] | Setting[bool] | Setting[tuple[int, int]] | Setting[base.Parameters]

ALL: dict[str, AnySetting] = {name: setting for name, setting in vars(Settings).items() if isinstance(setting, Setting)}
"""The settings by their names."""
