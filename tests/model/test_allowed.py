"""The allow-lists of a cluster: built-in entries, changes, and what is outside of them."""

from pathlib import Path

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import allowed, cluster, opcodes, parameters

OWNER = build.OWNER
SECURITY = Path(__file__).parents[2] / "docs/explanation/security.md"


def changed(*changes: tuple[str, str, str], owner: cluster.Cluster = OWNER) -> cluster.Cluster:
    op = opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", "allowed": [list(change) for change in changes]})
    assert isinstance(op, opcodes.ClusterSetParams)
    return structs.replace(owner, allowed=allowed.applied(owner, op))


def test_every_list_is_about_parameters_that_exist() -> None:
    known = {name for each in parameters.HYPERVISORS.values() for name in each}
    assert set(allowed.OF_PARAMETER) <= known
    assert len(allowed.OF_PARAMETER) == sum(len(each.parameters) for each in allowed.LISTS.values())


def test_every_parameter_that_is_a_path_of_a_node_or_free_arguments_has_a_list() -> None:
    known = {name for each in parameters.HYPERVISORS.values() for name in each}
    paths = {name for name in known if name.endswith(("_path", "_file", "_script", "_extra", "_devices", "_args"))}
    # Inside of the guest: its root device, its kernel's arguments, and a script on its own disk.
    assert paths - {"root_path", "kernel_args", "init_script"} <= set(allowed.OF_PARAMETER)


def test_every_parameter_that_may_be_any_text_is_in_a_list_or_on_the_page_with_the_reason_why_it_is_harmless() -> None:
    section = SECURITY.read_text().partition("### Text without a list")[2].partition("\n### ")[0]
    reasons = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    free = {
        name
        for known in parameters.HYPERVISORS.values()
        for name, each in known.items()
        if isinstance(each.default, str) and not (each.choices or each.letters or each.punctuation)
    }
    assert free - set(allowed.OF_PARAMETER) == reasons


@pytest.mark.parametrize(
    ("hypervisor", "values"),
    [
        ("kvm", {"kvm_path": "/usr/bin/python3"}),
        ("kvm", {"kvm_path": "/usr/bin/qemu-system-x86_64/../python3"}),
        ("kvm", {"kvm_extra": "-drive file=/etc/shadow"}),
        ("kvm", {"kernel_path": "/etc/shadow"}),
        ("kvm", {"initrd_path": "/boot/../etc/shadow"}),
        ("kvm", {"cdrom_image_path": "/etc/shadow"}),
        ("kvm", {"cdrom2_image_path": "/dev/sda"}),
        ("kvm", {"cdrom_image_path": "http://192.0.2.1/cd.iso"}),
        ("kvm", {"floppy_image_path": "/var/lib/gantry/certs/authority.key"}),
        ("kvm", {"firmware_path": "/tmp/x_CODE.fd"}),
        ("kvm", {"mem_path": "/etc"}),
        ("kvm", {"usb_devices": "usb-host,hostbus=1"}),
        ("kvm", {"usb_devices": "vfio-pci,host=01:00.0"}),
        ("kvm", {"vnc_password_file": "/etc/shadow"}),
        ("kvm", {"vnc_bind_address": "/etc/cron.d"}),
        ("xen-pvm", {"bootloader_path": "/bin/sh"}),
        ("xen-pvm", {"bootloader_args": "-c x"}),
        ("xen-hvm", {"device_model": "/bin/sh"}),
        ("xen-hvm", {"vif_script": "/tmp/script"}),
        ("xen-hvm", {"pci_pass": "01:00.0"}),
    ],
)
def test_what_could_make_a_user_root_is_refused_and_root_can_allow_it(hypervisor: str, values: dict[str, str]) -> None:
    ((parameter, value),) = values.items()
    name = allowed.OF_PARAMETER[parameter]
    with pytest.raises(errors.ForbiddenError) as caught:
        allowed.check(OWNER, hypervisor, values)
    text = str(caught.value)
    assert f"parameter {parameter}: {value} is not in the allow-list {name} (" in text
    assert f"gnt-cluster modify --allow '{name}={value}'" in text
    assert all(entry in text for entry in allowed.LISTS[name].entries)
    if ".." not in value and "//" not in value:
        allowed.check(changed(("add", name, value)), hypervisor, values)


def test_usual_values_and_built_in_defaults_are_allowed() -> None:
    usual = {"kernel_path": "/boot/vmlinuz", "cdrom_image_path": "/srv/iso/debian.iso", "usb_devices": "usb-tablet"}
    allowed.check(OWNER, "kvm", usual | {"kvm_path": "default", "vnc_bind_address": "127.0.0.1", "kvm_extra": ""})
    none = changed(*(("remove", name, entry) for name, each in allowed.LISTS.items() for entry in each.entries))
    for hypervisor, known in parameters.HYPERVISORS.items():
        allowed.check(none, hypervisor, {name: parameter.default for name, parameter in known.items()})
    with pytest.raises(errors.ForbiddenError, match=r"usb_devices: usb-tablet .*which is empty"):
        allowed.check(none, "kvm", usual | {"kernel_path": "", "cdrom_image_path": ""})


def test_a_list_that_equals_the_built_in_one_is_not_stored() -> None:
    other = changed(("add", "images", "/srv/cd"), ("remove", "images", "/boot"))
    assert "/srv/cd" in allowed.entries(other, "images")
    assert "/boot" not in allowed.entries(other, "images")
    assert changed(("remove", "images", "/srv/cd"), ("add", "images", "/boot"), owner=other).allowed == {}
    assert changed(("add", "images", "default"), owner=other).allowed == {}
    assert allowed.entries(changed(("remove", "kvm_extra", "-x")), "kvm_extra") == ()


@pytest.mark.parametrize(
    ("name", "entry"), [("images", "srv"), ("images", "/srv/../etc"), ("imags", "/srv"), ("kvm_extra", "-a\nb")]
)
def test_a_wrong_list_or_entry_is_refused(name: str, entry: str) -> None:
    with pytest.raises(errors.InvalidError):
        changed(("add", name, entry))


def test_an_opcode_that_widens_what_instances_may_do_needs_root() -> None:
    def needs(**fields: object) -> str:
        return allowed.needs_root(opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", **fields}))

    assert needs(allowed=[["add", "images", "/"]]) == "the allow-lists"
    assert needs(allowed=[["remove", "images", "/boot"]]) == "the allow-lists"
    assert "chroot" in needs(enabled_hypervisors=["kvm", "chroot"])
    assert "migration_port" in needs(hvparams={"kvm": {"acpi": False, "migration_port": 1811}})
    assert "migration_port" in needs(hvparams={"kvm": {}, "xen-pvm": {"migration_port": "default"}})
    assert needs(ipam_driver="sql", ipam_database="sqlite:////etc/x")
    assert needs(enabled_hypervisors=["kvm"], hvparams={"kvm": {"kernel_path": "/boot/k"}}) == ""
    assert allowed.needs_root(opcodes.decode({"OP_ID": "OP_TEST_DELAY", "duration": 0})) == ""


def test_adding_a_node_needs_root_and_changing_one_does_not() -> None:
    addition = {"OP_ID": "OP_NODE_ADD", "node_name": "node9"}
    invitation = {"OP_ID": "OP_NODE_INVITE", "node_name": "node9", "secret_hash": "0" * 64}
    promotion = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node9", "master_candidate": True}
    for op in (addition, invitation):
        assert allowed.needs_root(opcodes.decode(op)) == "which machines become nodes"
        assert allowed.root_command(opcodes.decode(op)) == "gnt-node add"
    assert allowed.needs_root(opcodes.decode(promotion)) == ""
