"""Parameters at every level of a cluster of real daemons: the commands, the stored values, the values sent to nodes."""

import json
import shlex
import shutil
import socket
from collections.abc import Iterator

import pytest
import yaml
from tests.cluster import lab

QEMU = shutil.which("qemu-system-x86_64")
VM = "vm.example"
ADD = ("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1")
MODIFY = ("gnt-instance", "modify")


@pytest.fixture(scope="module")
def cluster() -> Iterator[lab.Lab]:
    """Three nodes; the hypervisor kvm is enabled, with a program that may not be QEMU; fake is the default."""
    with lab.lab() as three_nodes:
        three_nodes.init()
        three_nodes.add_node()
        three_nodes.add_node()
        program = QEMU or "/bin/sh"
        three_nodes.run(
            "gnt-cluster", "modify", "-f", "--enabled-hypervisors", "fake,kvm", "-H", f"kvm:kvm_path={program}",
            "--allow", f"kvm_path={program}", "--allow", f"images={three_nodes.folder}",
        )  # fmt: skip
        yield three_nodes


@pytest.fixture
def vm(cluster: lab.Lab) -> Iterator[str]:
    cluster.run(*ADD, VM)
    yield VM
    cluster.run("gnt-instance", "remove", "-f", VM)


def _stored(cluster: lab.Lab, kind: str, name: str) -> dict[str, object]:
    objects = json.loads(cluster.run("gantry", "export-config").stdout)[kind]
    (matching_object,) = [each for each in objects.values() if each["name"] == name]
    assert isinstance(matching_object, dict)
    return matching_object


def _cells(cluster: lab.Lab, program: str, fields: str, name: str) -> list[str]:
    (row,) = cluster.rows(program, fields, name)
    return row


def _guest(cluster: lab.Lab) -> dict[str, int]:
    guest = json.loads((cluster.nodes[0].root / f"run/instances/fake/{VM}").read_text())["running"]
    return {"memory": guest["memory"], "vcpus": guest["vcpus"]}


@pytest.mark.promise("cluster-70", "cluster-72", "cluster-77")
def test_only_what_was_set_is_stored_and_default_takes_it_back(cluster: lab.Lab, vm: str) -> None:
    assert not {"hvparams", "beparams", "osparams"} & set(_stored(cluster, "instances", vm))
    done = cluster.run(*MODIFY, "-B", "maxmem=256,vcpus=1", "-H", "migration_mode=live", vm)
    assert " - be/vcpus -> 1\n" in done.stdout
    stored = _stored(cluster, "instances", vm)
    assert stored["beparams"] == {"maxmem": 256, "vcpus": 1}
    assert stored["hvparams"] == {"migration_mode": "live"}
    assert cluster.rows("gnt-instance", "custom_beparams,custom_hvparams")
    for nothing in ({"hvparams": {"migration_mode": None}}, {"beparams": {"vcpus": None}}):
        with cluster.luxi() as luxi:
            op = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": vm, **nothing}
            assert luxi.exchange("SubmitJob", [op])[0] is False
    cluster.run(*MODIFY, "-B", "maxmem=default,-vcpus", "-H", "-migration_mode", vm)
    assert not {"hvparams", "beparams"} & set(_stored(cluster, "instances", vm))


OF_HYPERVISORS: dict[str, dict[str, object]] = {
    "xen-pvm": {"kernel_path": "/boot/k", "initrd_path": "/boot/i"},
    "xen-hvm": {
        "boot_order": "dc", "acpi": False, "pae": False, "cdrom_image_path": "/srv/iso/cd", "nic_type": "e1000",
        "disk_type": "ioemu", "vnc_bind_address": "127.0.0.1",
    },
}  # fmt: skip


@pytest.mark.promise("cluster-73", "cluster-74")
def test_every_parameter_of_release_1_2_is_in_its_class_and_has_one_name_for_all_hypervisors(
    cluster: lab.Lab, vm: str
) -> None:
    with cluster.luxi() as luxi:

        def run(name: str, **fields: object) -> str:
            """Run an opcode; return its error, empty if it succeeds."""
            status, results = luxi.finished(luxi.value("SubmitJob", [{"OP_ID": f"OP_{name}_SET_PARAMS", **fields}]))
            return "" if status == "success" else str(results)

        assert run("CLUSTER", hvparams=OF_HYPERVISORS) == ""
        stored = json.loads(cluster.run("gantry", "export-config").stdout)["cluster"]["hvparams"]
        assert {name: stored[name] for name in OF_HYPERVISORS} == OF_HYPERVISORS
        for values in OF_HYPERVISORS.values():
            for name in values:
                refusal = run("INSTANCE", instance_name=vm, beparams={name: 1})
                assert f"unknown backend parameter {name}" in refusal
        for name in ("memory", "vcpus", "hvm_acpi", "hvm_vnc_bind_address", "kvm_vnc_bind_address"):
            assert f"unknown kvm hypervisor parameter {name}" in run("CLUSTER", hvparams={"kvm": {name: 1}})
        for address in ("127.0.0.1", "default"):
            both = {name: {"vnc_bind_address": address} for name in ("kvm", "xen-hvm")}
            assert run("CLUSTER", hvparams=both) == ""
        unset = {kind: dict.fromkeys(values, "default") for kind, values in OF_HYPERVISORS.items()}
        assert run("CLUSTER", hvparams=unset) == ""
    cluster.run(*MODIFY, "-B", "memory=256,vcpus=2", vm)
    assert _stored(cluster, "instances", vm)["beparams"] == {"minmem": 256, "maxmem": 256, "vcpus": 2}
    own = "name,pnode,hypervisor,disk_template,admin_state"
    assert _cells(cluster, "gnt-instance", own, vm) == [vm, "node1", "fake", "diskless", "up"]


@pytest.mark.promise("cluster-78")
def test_fields_have_the_seeds_spelling_and_todays(cluster: lab.Lab, vm: str) -> None:
    cluster.run(*MODIFY, "-B", "memory=256,vcpus=3", vm)
    seed = "beparam/maxmem,beparam/vcpus,beparam/memory,hvparam/migration_mode"
    today = seed.replace("beparam/", "be/").replace("hvparam/", "hv/")
    assert _cells(cluster, "gnt-instance", seed, vm) == ["256", "3", "256", "live"]
    assert _cells(cluster, "gnt-instance", today, vm) == ["256", "3", "256", "live"]
    with cluster.luxi() as luxi:
        fields = ["beparams", "hvparams", "custom_beparams", "custom_nicparams"]
        rows = luxi.value("QueryInstances", [vm], fields, False)
    assert isinstance(rows, list)
    be, hv, custom, of_nics = rows[0]
    filled = {"maxmem": 256, "minmem": 256, "vcpus": 3, "auto_balance": True, "always_failover": False}
    assert be == {**filled, "spindle_use": 1}
    assert (hv, of_nics) == ({"migration_mode": "live"}, [])
    assert custom == {"maxmem": 256, "minmem": 256, "vcpus": 3}
    info = yaml.safe_load(cluster.run("gnt-instance", "info", vm).stdout)[0]
    assert info["Back-end parameters"]["vcpus"] == 3
    assert info["Back-end parameters"]["auto_balance"] == "default (True)"


@pytest.mark.promise("cluster-75")
def test_names_are_checked_on_the_master_and_values_on_the_node_before_anything_changes(cluster: lab.Lab) -> None:
    add = (*ADD, "--no-start", "-H", "kvm:acpi=false", "k.example")
    cluster.run(*add)
    before = _stored(cluster, "instances", "k.example")
    assert "did you mean kernel_path?" in cluster.refused(*MODIFY, "-H", "kernel_pth=/boot/k", "k.example")
    assert "there is no file /boot/nowhere on node node1" in cluster.refused(
        *MODIFY, "-H", "kernel_path=/boot/nowhere", "k.example"
    )
    assert "there is no file /boot/nowhere on node" in cluster.refused(
        "gnt-cluster", "modify", "-H", "kvm:kernel_path=/boot/nowhere"
    )
    system = ("gnt-os", "modify", "-H", "kvm:initrd_path=/boot/nowhere", "plain")
    assert "hypervisor kvm with OS plain: node node1: initrd_path: there is no file" in cluster.refused(*system)
    assert _stored(cluster, "instances", "k.example") == before
    cluster.run("gnt-instance", "remove", "-f", "k.example")


@pytest.mark.promise("cluster-144", "cluster-145", "cluster-146")
def test_the_hypervisor_is_named_at_creation_and_its_options_change_later(cluster: lab.Lab) -> None:
    iso = cluster.folder / "boot.iso"
    iso.write_bytes(b"\0" * 2048)
    cluster.run(*ADD, VM)
    cluster.run(*ADD, "--no-start", "--hypervisor", "kvm:accel=tcg,boot_order=disk", "k.example")
    assert cluster.rows("gnt-instance", "name,hypervisor") == [["k.example", "kvm"], [VM, "fake"]]
    cluster.run(*MODIFY, "--hypervisor", f"cdrom={iso},boot_order=cdrom:network", "k.example")
    own = {"accel": "tcg", "boot_order": "cdrom:network", "cdrom_image_path": str(iso)}
    assert _stored(cluster, "instances", "k.example")["hvparams"] == own
    cluster.run(*MODIFY, "-H", "-cdrom_image_path,boot_order=default", "k.example")
    assert _stored(cluster, "instances", "k.example")["hvparams"] == {"accel": "tcg"}
    assert "the hypervisor of an instance cannot be changed" in cluster.refused(
        *MODIFY, "--hypervisor", "fake:", "k.example"
    )
    with cluster.luxi() as luxi:
        op = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "k.example", "hypervisor": "fake"}
        assert luxi.exchange("SubmitJob", [op])[0] is False
    assert _cells(cluster, "gnt-instance", "hypervisor", "k.example") == ["kvm"]
    assert "hypervisor xen-pvm is not enabled" in cluster.refused(*ADD, "--hypervisor", "xen-pvm", "x.example")
    for name in (VM, "k.example"):
        cluster.run("gnt-instance", "remove", "-f", name)


def _boot_disc(text: bytes) -> bytes:
    """Return an ISO image that a PC boots (El Torito, no emulation), and that writes a text to the serial line."""
    program = bytes.fromhex("e80000 5e 81c62000 0e 1f 89f7 8a05 84c0 74f8 50 bafd03 ec a820 58 74f6 baf803 ee 47 ebe9")
    sectors = {
        16: b"\x01CD001\x01",
        17: (b"\0CD001\x01EL TORITO SPECIFICATION".ljust(0x47, b"\0") + (18).to_bytes(4, "little")),
        18: b"\x01".ljust(30, b"\0") + b"\x55\xaa" + b"\x88\0\0\0\0\0\x01\0" + (19).to_bytes(4, "little"),
        19: program + text + b"\0",
    }
    return b"".join(sectors.get(number, b"").ljust(2048, b"\0") for number in range(24))


@pytest.mark.promise("cluster-147")
@pytest.mark.skipif(not QEMU, reason="there is no QEMU here")
def test_a_guest_boots_from_an_iso_image(cluster: lab.Lab) -> None:
    iso = cluster.folder / "boot.iso"
    iso.write_bytes(_boot_disc(b"BOOTED FROM THE DISC\r\n"))
    hypervisor = f"kvm:accel=tcg,boot_order=cdrom,cdrom_image_path={iso}"
    cluster.run(*ADD, "-H", hypervisor, "-B", "memory=64", "k.example")
    command = cluster.run("gnt-instance", "console", "--show-cmd", "k.example").stdout
    (path,) = [
        word
        for word in shlex.split(command.replace(":", " ").replace(",", " "))
        if word.startswith(("/run/", str(cluster.folder)))
    ]
    output = b""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(120)
        line.connect(path)
        while b"BOOTED FROM THE DISC" not in output:
            more = line.recv(4096)
            assert more, output
            output += more
    cluster.run("gnt-instance", "remove", "-f", "--shutdown-timeout", "0", "k.example")


@pytest.mark.promise("cluster-3")
@pytest.mark.skipif(not QEMU, reason="there is no QEMU here")
def test_instances_of_two_hypervisors_run_side_by_side_each_with_its_own_parameters(cluster: lab.Lab) -> None:
    cluster.run(*ADD, VM)
    cluster.run(*ADD, "-H", "kvm:accel=tcg,serial_console=false", "-B", "memory=64", "k.example")
    fields = "name,hypervisor,status,oper_ram,hv/accel,hv/migration_mode"
    assert cluster.rows("gnt-instance", fields) == [
        ["k.example", "kvm", "running", "64", "tcg", "live"],
        [VM, "fake", "running", "128", "-", "live"],
    ]
    assert "unknown fake hypervisor parameter accel" in cluster.refused(*MODIFY, "-H", "accel=tcg", VM)
    cluster.run("gnt-instance", "stop", "--timeout", "0", "k.example")
    assert dict(cluster.rows("gnt-instance", "name,status")) == {"k.example": "ADMIN_down", VM: "running"}
    for name in (VM, "k.example"):
        cluster.run("gnt-instance", "remove", "-f", name)


def test_parameters_of_an_operating_system_stand_between_cluster_and_instance(cluster: lab.Lab) -> None:
    cluster.run("gnt-cluster", "modify", "-H", "fake:migration_mode=live")
    cluster.run("gnt-os", "modify", "-H", "fake:migration_mode=non-live", "plain")
    cluster.run(
        "gnt-instance", "add", "-t", "file", "-s", "16m", "-o", "plain", "--no-nics", "-n", "node1", "os.example"
    )
    cluster.run(*ADD, VM)
    assert cluster.rows("gnt-instance", "name,hv/migration_mode") == [["os.example", "non-live"], [VM, "live"]]
    cluster.run(*MODIFY, "-H", "migration_mode=live", "os.example")
    assert _cells(cluster, "gnt-instance", "hv/migration_mode", "os.example") == ["live"]
    info = yaml.safe_load(cluster.run("gnt-cluster", "info").stdout)
    assert info["OS-specific hypervisor parameters"] == {"plain": {"fake": {"migration_mode": "non-live"}}}
    cluster.run("gnt-os", "modify", "-H", "fake:migration_mode=default", "plain")
    cluster.run("gnt-cluster", "modify", "-H", "fake:migration_mode=default")
    for name in (VM, "os.example"):
        cluster.run("gnt-instance", "remove", "-f", name)


def test_a_running_guest_gets_memory_at_once_and_other_changes_at_its_next_start(cluster: lab.Lab, vm: str) -> None:
    later = "its new parameters take effect at its next start"
    assert later in cluster.run(*MODIFY, "-B", "maxmem=512,minmem=64,vcpus=2", vm).stdout
    assert _guest(cluster) == {"memory": 128, "vcpus": 1}
    assert later not in cluster.run(*MODIFY, "-B", "auto_balance=no,minmem=32", vm).stdout
    assert " - runtime_memory -> 96\n" in cluster.run(*MODIFY, "-m", "96m", vm).stdout
    assert _guest(cluster)["memory"] == 96
    assert _cells(cluster, "gnt-instance", "oper_ram,be/maxmem", vm) == ["96", "512"]
    assert "must be 32 to 512 MiB, not 16" in cluster.refused(*MODIFY, "--runtime-memory", "16", vm)
    cluster.run("gnt-instance", "reboot", "-t", "full", vm)
    assert _guest(cluster) == {"memory": 512, "vcpus": 2}
    cluster.run("gnt-instance", "stop", vm)
    assert f"instance {vm} is not running" in cluster.refused(*MODIFY, "-m", "96", vm)


def test_an_offline_instance_is_not_started(cluster: lab.Lab, vm: str) -> None:
    assert "is recorded as up and cannot be marked offline" in cluster.refused(*MODIFY, "--offline", vm)
    cluster.run("gnt-instance", "stop", vm)
    assert " - admin_state -> offline\n" in cluster.run(*MODIFY, "--offline", vm).stdout
    assert _cells(cluster, "gnt-instance", "status,admin_state", vm) == ["ADMIN_offline", "offline"]
    assert "is marked offline" in cluster.refused("gnt-instance", "start", vm)
    cluster.run(*MODIFY, "--online", vm)
    cluster.run("gnt-instance", "start", vm)
    assert _cells(cluster, "gnt-instance", "status", vm) == ["running"]


REFUSED = (
    (
        f"gnt-instance modify -B minmem=256 {VM}",
        "minmem would be 256, which is above maxmem, 128; memory sets both",
    ),
    (f"gnt-instance modify -B maxmem=64 {VM}", "minmem would be 128, which is above maxmem, 64"),
    (f"gnt-instance start -B minmem=256 {VM}", "minmem would be 256, which is above maxmem, 128"),
    ("gnt-instance add -t diskless --no-nics -B maxmem=64 new", "minmem would be 128, which is above maxmem, 64"),
    ("gnt-cluster modify -B minmem=256", "minmem would be 256, which is above maxmem, 128"),
    (f"gnt-instance modify -B memory=0 {VM}", "is below the minimum 1"),
    (f"gnt-instance modify -B vcpu=2 {VM}", "unknown backend parameter vcpu; did you mean vcpus?"),
    (f"gnt-instance modify -B vcpus=two {VM}", "vcpus: 'two' is not an integer"),
    (f"gnt-instance modify -B auto_balance=maybe {VM}", "auto_balance: 'maybe' is not a boolean"),
    (f"gnt-instance modify -H migration_mod=live {VM}", "did you mean migration_mode?"),
    (f"gnt-instance modify -H migration_mode=quick {VM}", "is not one of live, non-live"),
    (
        "gnt-node modify --node-parameters cpu_sped=2 node2",
        "unknown node parameter cpu_sped; did you mean cpu_speed?",
    ),
    ("gnt-node modify --node-parameters cpu_speed=-1 node2", "'-1' is below the minimum 0"),
    ("gnt-cluster modify -D plan:stripes=2", "unknown disk template plan; did you mean plain?"),
    ("gnt-cluster modify -D drbd:resync-rat=1", "did you mean resync-rate?"),
    ("gnt-cluster modify --ipolicy-bounds-specs max:memory-sise=1", "did you mean memory-size?"),
    ("gnt-os modify -H fake:speed=1 plain", "unknown fake hypervisor parameter speed"),
)


def test_what_is_misspelt_or_out_of_range_is_one_line_and_changes_nothing(cluster: lab.Lab, vm: str) -> None:
    before = _stored(cluster, "instances", vm), cluster.rows("gnt-instance", "name")
    for line, complaint in REFUSED:
        assert complaint in cluster.refused(*line.split()), line
    assert (_stored(cluster, "instances", vm), cluster.rows("gnt-instance", "name")) == before


def test_defaults_of_memory_that_an_instance_cannot_live_with_are_refused(cluster: lab.Lab, vm: str) -> None:
    cluster.run(*MODIFY, "-B", "minmem=100", vm)
    complaint = f"instance {vm}: backend parameter minmem would be 100, which is above maxmem, 64"
    assert complaint in cluster.refused("gnt-cluster", "modify", "-B", "memory=64")


def test_a_copy_of_the_configuration_that_is_read_back_has_every_level(cluster: lab.Lab) -> None:
    cluster.run("gnt-cluster", "modify", "-D", "plain:stripes=2", "--ipolicy-std-specs", "cpu-count=2")
    cluster.run("gnt-node", "modify", "--node-parameters", "cpu_speed=2.5,spindle_count=4", "node2")
    cluster.kill_master()
    cluster.start_master()
    assert _cells(cluster, "gnt-node", "ndp/cpu_speed,ndp/spindle_count,ndp/ssh_port", "node2") == ["2.5", "4", "22"]
    with cluster.luxi() as luxi:
        info = luxi.call("QueryClusterInfo")
    disk, policy = info["diskparams"], info["ipolicy"]
    assert isinstance(disk, dict)
    assert isinstance(policy, dict)
    assert (disk["plain"], policy["std"]["cpu-count"]) == ({"stripes": 2}, 2)
    cluster.run("gnt-cluster", "modify", "-D", "plain:stripes=default", "--ipolicy-std-specs", "default")
    cluster.run("gnt-node", "modify", "--node-parameters=-cpu_speed,-spindle_count", "node2")
    assert "ndparams" not in _stored(cluster, "nodes", "node2")
