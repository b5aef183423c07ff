"""The settings of the cluster: what an opcode changes, what it takes back, and what is refused."""

from typing import cast

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, opcodes, parameters
from gantry.rpc import calls


def op(**fields: object) -> opcodes.ClusterSetParams:
    return cast("opcodes.ClusterSetParams", opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS"} | fields))


SYSTEM = calls.OsScript(name="plain", path="/os/plain", api_versions=(20,), parameters=(("mirror", "Where from"),))


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.machine("node1").systems = (SYSTEM,)
    return lab


CHANGES: list[tuple[dict[str, object], dict[str, object], str]] = [
    ({"mac_prefix": "AA:00:07"}, {"mac_prefix": "aa:00:07"}, "mac_prefix: aa:00:00 becomes aa:00:07"),
    ({"master_netdev": "br9"}, {"master_netdev": "br9"}, "master_netdev: empty becomes br9"),
    (
        {"journal_retention": "64m,14D"},
        {"journal_retention": "14d,64M"},
        "journal_retention: 30d,4G becomes 14d,64M",
    ),
    ({"archive_retention": "forever"}, {"archive_retention": "forever"}, "archive_retention: 30d,2G becomes forever"),
    ({"max_running_jobs": "7"}, {"max_running_jobs": 7}, "max_running_jobs: 1000 becomes 7"),
    ({"stray_guests": "adopt"}, {"stray_guests": "adopt"}, "stray_guests: report becomes adopt"),
    ({"reading": "rules"}, {"reading": "rules"}, "reading: all becomes rules"),
    ({"default_disk_size": "1g"}, {"default_disk_size": 1024}, "default_disk_size: 0 becomes 1024"),
    ({"ipam_hold_time": 3600}, {"ipam_hold_time": 3600}, "ipam_hold_time: 0 becomes 3600"),
    ({"default_iallocator": "hail"}, {"default_iallocator": "hail"}, "default_iallocator: empty becomes hail"),
    (
        {"network_thresholds": [50, 60]},
        {"network_thresholds": (50, 60)},
        "network_thresholds: 80,95 becomes 50,60",
    ),
    (
        {"default_hypervisor": "kvm"},
        {"enabled_hypervisors": ("kvm", "fake")},
        "enabled_hypervisors: fake,kvm becomes kvm,fake",
    ),
    (
        {"enabled_disk_templates": ["diskless", "file"]},
        {"enabled_disk_templates": ("diskless", "file")},
        "enabled_disk_templates: file,diskless becomes diskless,file",
    ),
    (
        {"hvparams": {"kvm": {"accel": "tcg"}}},
        {"hvparams": {"kvm": {"accel": "tcg"}}},
        "hypervisor kvm accel: default (auto) becomes tcg",
    ),
    (
        {"beparams": {"vcpus": "2"}},
        {"beparams": {"default": {"vcpus": 2}}},
        "backend vcpus: default (1) becomes 2",
    ),
    (
        {"nicparams": {"link": "br9"}},
        {"nicparams": {"default": {"link": "br9"}}},
        "NIC link: default (br0) becomes br9",
    ),
    (
        {"osparams": {"plain": {"mirror": "near"}}},
        {"osparams": {"plain": {"mirror": "near"}}},
        "OS plain mirror: not set becomes near",
    ),
]


@pytest.mark.parametrize(("requested", "expected", "line"), CHANGES)
async def test_each_setting_changes_and_is_said(
    lab: build.MemoryCluster, requested: dict[str, object], expected: dict[str, object], line: str
) -> None:
    before = lab.state.the_cluster
    plan = await lab.plan(op(**requested))
    assert line in plan.lines
    assert await lab.run(op(**requested)) is None
    after = lab.state.the_cluster
    assert after.serial_no == before.serial_no + 1
    assert after == msgspec.structs.replace(before, serial_no=after.serial_no, mtime=1000.0, **expected)


@pytest.mark.parametrize(("requested", "expected", "line"), CHANGES)
async def test_default_takes_each_setting_back(
    lab: build.MemoryCluster, requested: dict[str, object], expected: dict[str, object], line: str
) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, enabled_hypervisors=("kvm", "fake")))
    lab.change([])
    await lab.run(op(**requested))
    back = {name: _reset(value) for name, value in requested.items() if name != "default_hypervisor"}
    if not back:
        return
    await lab.run(op(**back))
    after = lab.state.the_cluster
    untouched = msgspec.structs.replace(build.OWNER, enabled_hypervisors=("kvm", "fake"))
    assert after == msgspec.structs.replace(untouched, serial_no=after.serial_no, mtime=after.mtime)


def _reset(value: object) -> object:
    if isinstance(value, dict):
        return {name: _reset(child) for name, child in value.items()}
    return ["default"] if isinstance(value, list) and isinstance(value[0], str) else "default"


def test_the_settings_of_a_new_cluster_are_the_defaults_of_the_parameters() -> None:
    fresh = cluster.Cluster(uuid="c", name="c", master_node="n")
    for name, known in parameters.CLUSTER.items():
        assert getattr(fresh, name) == known.default


async def test_a_value_that_equals_the_default_is_kept_until_it_is_reset(lab: build.MemoryCluster) -> None:
    await lab.run(op(hvparams={"fake": {"migration_mode": "live"}}, beparams={"vcpus": 1}))
    owner = lab.state.the_cluster
    assert (owner.hvparams, owner.beparams) == ({"fake": {"migration_mode": "live"}}, {"default": {"vcpus": 1}})
    await lab.run(op(hvparams={"fake": {"migration_mode": "default"}}, beparams={"vcpus": "default"}))
    owner = lab.state.the_cluster
    assert (owner.hvparams, owner.beparams) == ({}, {})


async def test_parameters_that_are_not_named_stay(lab: build.MemoryCluster) -> None:
    await lab.run(op(hvparams={"kvm": {"acpi": False, "accel": "tcg"}}, beparams={"vcpus": 2}))
    await lab.run(op(hvparams={"kvm": {"accel": "default"}}, beparams={"auto_balance": False}))
    owner = lab.state.the_cluster
    assert owner.hvparams == {"kvm": {"acpi": False}}
    assert owner.beparams == {"default": {"vcpus": 2, "auto_balance": False}}


@pytest.mark.parametrize(
    "requested",
    [
        {"mac_prefix": "aa:00:00"},
        {"candidate_pool_size": 1},
        {"hvparams": {"kvm": {}}},
        {"hvparams": {"kvm": {"accel": "default"}}},
        {"enabled_hypervisors": ["fake", "kvm", "fake"]},
        {"default_hypervisor": "fake"},
        {"network_thresholds": "default"},
        {"beparams": {}},
    ],
)
async def test_a_change_that_is_none_says_so_and_writes_nothing(
    lab: build.MemoryCluster, requested: dict[str, object]
) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    plan = await lab.plan(op(**requested))
    assert list(plan.changes) == []
    assert plan.lines == ["nothing changes: cluster lab.example already has these settings"]
    assert [step.text for step in plan.steps] == plan.lines
    assert plan.hooks is None


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({}, "no change of the cluster was requested; specify at least one setting"),
        ({"force": True}, "no change of the cluster was requested"),
        (
            {"hvparams": {"kvm": {"acel": "tcg"}}},
            "unknown kvm hypervisor parameter acel; did you mean accel?",
        ),
        ({"beparams": {"vcpu": 1}}, "did you mean vcpus?"),
        ({"nicparams": {"lnk": "br0"}}, "did you mean link?"),
        ({"ndparams": {"oob": "x"}}, "unknown node parameter oob; known names: cpu_speed"),
        ({"hvparams": {"kwm": {}}}, "unknown hypervisor kwm; did you mean kvm?"),
        ({"enabled_hypervisors": ["lxc"]}, "unknown hypervisor lxc; known names: chroot, fake, kvm, xen-"),
        ({"enabled_hypervisors": []}, "the list of hypervisors is empty"),
        ({"enabled_disk_templates": ["fil"]}, "unknown disk template fil; did you mean file?"),
        ({"default_hypervisor": "xen"}, "hypervisor xen is not enabled; enabled: fake, kvm"),
        ({"candidate_pool_size": 0}, "candidate_pool_size: 0 is below the minimum 1"),
        ({"candidate_pool_size": -1}, "candidate_pool_size: -1 is below the minimum 1"),
        ({"candidate_pool_size": 10**18}, "candidate_pool_size: the number is above the maximum 1000"),
        ({"candidate_pool_size": "many"}, "candidate_pool_size: 'many' is not an integer"),
        ({"max_running_jobs": 0}, "max_running_jobs: 0 is below the minimum 1"),
        ({"stray_guests": "kill"}, "stray_guests: "),
        ({"reading": "none"}, "reading: 'none' is not one of all, rules"),
        ({"ipam_hold_time": -1}, "ipam_hold_time: -1 is below the minimum 0"),
        ({"default_iallocator": "/bin/sh"}, "'/bin/sh' is not a valid allocator name"),
        ({"default_disk_size": "huge"}, "disk size 'huge' is not valid"),
        ({"default_disk_size": -1}, "default_disk_size: -1 is below the minimum 0"),
        ({"hvparams": {"kvm": {"serial_speed": "fast"}}}, "serial_speed: 'fast' is not an integer"),
        ({"hvparams": {"kvm": {"accel": "xen"}}}, "'xen' is not one of auto, kvm, tcg"),
        ({"hvparams": {"kvm": {"kernel_args": "ro\nquiet"}}}, "characters that are not printable"),
        ({"beparams": {"minmem": 256}}, "minmem would be 256, which is above maxmem, 128; memory sets both"),
        ({"beparams": {"memory": 1, "maxmem": 1}}, "memory cannot be given together with"),
        ({"nicparams": {"mode": "ovs"}}, "'ovs' is not one of bridged, routed"),
        ({"mac_prefix": "aa:00"}, "MAC prefix aa:00 is not valid"),
        ({"master_netdev": "eth 0"}, "'eth 0' is not a network device name"),
        (
            {"journal_retention": "30 days"},
            "'30 days' is not a valid retention: '30 days' is not an age or a size; use",
        ),
        ({"archive_retention": "10s"}, "'10s' is not a valid retention: the minimum age is 60s; use an age (30d"),
        ({"network_thresholds": [96, 95]}, "network thresholds 96,95 are invalid"),
        ({"network_thresholds": [0, 101]}, "network thresholds 0,101 are invalid"),
    ],
)
async def test_what_is_not_valid_is_refused_with_a_line_that_helps(
    lab: build.MemoryCluster, requested: dict[str, object], message: str
) -> None:
    error = await lab.refused(op(**requested))
    assert isinstance(error, errors.InvalidError)
    assert message in str(error)
    assert not lab.nodes.made
