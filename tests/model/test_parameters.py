"""Parameters: names, types, defaults, and the order in which the levels fill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import errors
from gantry.model import base, cluster, instance, parameters

OWNER = cluster.Cluster(
    uuid="c",
    name="c",
    master_node="n",
    hvparams={"kvm": {"kernel_args": "quiet", "acpi": False}},
    beparams={"default": {"vcpus": 2, "maxmem": 512}},
    nicparams={"default": {"link": "br9"}},
)


def vm(**fields: base.Parameters) -> instance.Instance:
    return instance.Instance(uuid="i", name="i", primary_node="n", hypervisor="kvm", **fields)  # type: ignore[arg-type]


@pytest.mark.promise("cluster-71")
def test_the_nearest_level_wins() -> None:
    vm1 = vm(hvparams={"kernel_args": "debug"}, beparams={"vcpus": 4})
    assert parameters.fill_hypervisor(OWNER, vm1) == {
        **{name: known.default for name, known in parameters.KVM.items()},
        "acpi": False,
        "kernel_args": "debug",
    }
    assert parameters.fill_backend(OWNER, vm1) == {
        "maxmem": 512,
        "minmem": 128,
        "vcpus": 4,
        "auto_balance": True,
        "always_failover": False,
        "spindle_use": 1,
    }
    nic = instance.Nic(uuid="x", mac="aa:00:00:00:00:01", nicparams={"mode": "routed"})
    assert parameters.fill_nic(OWNER, nic) == {"mode": "routed", "link": "br9", "vlan": ""}


LEVEL = st.dictionaries(st.sampled_from(sorted(parameters.BACKEND)), st.integers(1, 9), max_size=5)


@given(LEVEL, LEVEL)
def test_filling_gives_every_name_its_nearest_value(far: dict[str, base.Value], near: dict[str, base.Value]) -> None:
    filled = parameters.fill(parameters.BACKEND, far, near)
    assert set(filled) == set(parameters.BACKEND)
    for name, value in filled.items():
        assert value == near.get(name, far.get(name, parameters.BACKEND[name].default))


@given(LEVEL, st.dictionaries(st.sampled_from(sorted(parameters.BACKEND)), st.sampled_from([1, 2, "default"])))
def test_default_takes_a_setting_back_and_the_rest_stays(
    stored: dict[str, base.Value], change: dict[str, base.Value]
) -> None:
    merged = parameters.merge(stored, change)
    for name in parameters.BACKEND:
        expected = change.get(name, stored.get(name))
        assert merged.get(name) == (None if expected == "default" else expected)


def test_a_value_is_kept_though_it_equals_the_default() -> None:
    assert parameters.merge({}, parameters.backend({"vcpus": 1})) == {"vcpus": 1}


def test_default_is_a_reset_for_every_parameter_whatever_values_it_takes() -> None:
    for name, known in parameters.HYPERVISORS.items():
        resets = parameters.hypervisor(name, dict.fromkeys(known, "default"))
        assert parameters.merge(dict.fromkeys(known, 1), resets) == {}


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ({"vcpus": "4"}, {"vcpus": 4}),
        ({"auto_balance": "yes"}, {"auto_balance": True}),
        ({"auto_balance": "No"}, {"auto_balance": False}),
        ({"auto_balance": "false"}, {"auto_balance": False}),
        ({"memory": "256"}, {"minmem": 256, "maxmem": 256}),
        ({"memory": "default"}, {"minmem": "default", "maxmem": "default"}),
    ],
)
def test_text_is_taken_for_what_the_parameter_is(raw: dict[str, object], stored: base.Parameters) -> None:
    assert parameters.backend(raw) == stored


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"vcpus": "four"}, "parameter vcpus: 'four' is not an integer"),
        ({"vcpus": 1.5}, "is not an integer"),
        ({"vcpus": True}, "is not an integer"),
        ({"vcpus": None}, "is not an integer"),
        ({"vcpus": 0}, "is below the minimum 1"),
        ({"vcpus": "9" * 5000}, "is not an integer"),
        ({"auto_balance": "perhaps"}, "is not a boolean"),
        ({"auto_balance": 1}, "is not a boolean"),
        ({"colour": "red"}, "unknown backend parameter colour; known names:"),
        ({"memory": 1, "maxmem": 2}, "cannot be given together"),
        ({"memory": 1, "minmem": 2}, "cannot be given together"),
    ],
)
def test_backend_parameters_that_are_refused(raw: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        parameters.backend(raw)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("vmware", {}, "unknown hypervisor vmware; known names: chroot, fake, kvm, xen-hvm, xen-pvm"),
        ("kvm", {"colour": "red"}, "unknown kvm hypervisor parameter colour"),
        ("kvm", {"boot_order": "disk:tape"}, "is not one of disk, cdrom, network, floppy"),
        ("kvm", {"disk_type": "paravirtuel"}, "is not one of paravirtual, ide"),
        ("kvm", {"vnc_bind_adress": "::1"}, "did you mean vnc_bind_address?"),
        ("kvm", {"migration_port": 65536}, "above the maximum 65535"),
        ("kvm", {"kernel_path": 7}, "is not text"),
        ("kvm", {"serial_speed": "-1"}, "is below the minimum 1"),
        ("fake", {"migration_mode": "quick"}, "is not one of live, non-live"),
        ("kvm", {"keymap": "/etc/shadow"}, "'/etc/shadow' may only have ASCII letters, digits and _ -"),
        ("kvm", {"keymap": "..\\shadow"}, "may only have ASCII letters"),
        ("kvm", {"cpu_type": "max,vendor=/etc/shadow"}, "may only have ASCII letters, digits and _ - + . , : ="),
        ("kvm", {"machine_version": "pc,firmware=shadow"}, "may only have ASCII letters"),
        ("kvm", {"machine_version": "\u00e9"}, "may only have ASCII letters"),
        ("xen-hvm", {"soundhw": "vfio-pci,host=1"}, "may only have ASCII letters"),
    ],
)
def test_hypervisor_parameters_that_are_refused(name: str, raw: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        parameters.hypervisor(name, raw)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("kvm", {"cpu_type": "qemu64,+svm", "keymap": "de-ch", "machine_version": "pc-i440fx-9.0"}),
        ("kvm", {"cpu_type": "host,model-id=A b,hv_time,tsc-frequency=1", "keymap": "", "machine_version": "q35"}),
        ("xen-hvm", {"soundhw": "ac97,es1370"}),
    ],
)
def test_usual_names_of_processors_keyboards_machines_and_sound_cards_are_taken(
    name: str, values: base.Parameters
) -> None:
    assert parameters.hypervisor(name, values) == values


EVERY = {
    **{f"backend {name}": known for name, known in parameters.BACKEND.items()},
    **{f"NIC {name}": known for name, known in parameters.NIC.items()},
    **{f"{hv} {name}": known for hv, all_of in parameters.HYPERVISORS.items() for name, known in all_of.items()},
}


@pytest.mark.parametrize("name", EVERY)
def test_every_default_is_a_value_that_could_be_given(name: str) -> None:
    known = EVERY[name]
    assert parameters.convert(known.default, known, name=name) == known.default
    assert known.text


# The parameters that release 1.2 named after one hypervisor, and the hypervisors that have their meaning.
SHARED = {
    "acpi": {"kvm", "xen-hvm"},
    "boot_order": {"kvm", "xen-hvm"},
    "cdrom_image_path": {"kvm", "xen-hvm"},
    "disk_type": {"kvm", "xen-hvm"},
    "initrd_path": {"kvm", "xen-pvm"},
    "kernel_path": {"kvm", "xen-hvm", "xen-pvm"},
    "nic_type": {"kvm", "xen-hvm"},
    "pae": {"xen-hvm"},
    "vnc_bind_address": {"kvm", "xen-hvm"},
}


@pytest.mark.promise("cluster-73")
def test_hypervisors_share_the_names_that_mean_the_same() -> None:
    names = {name for known in parameters.HYPERVISORS.values() for name in known}
    for name, hypervisors in SHARED.items():
        assert {hypervisor for hypervisor, known in parameters.HYPERVISORS.items() if name in known} == hypervisors
    own = {"kvm_path", "kvm_extra", "kvm_pci_reservations"}
    assert {name for name in names if name.startswith(("kvm_", "hvm_", "fake_"))} == own


def test_devices_to_boot_from_are_a_list() -> None:
    assert parameters.hypervisor("kvm", {"boot_order": "cdrom:network"}) == {"boot_order": "cdrom:network"}


def test_what_concerns_pairs_of_nodes_is_set_for_the_cluster_alone() -> None:
    assert parameters.hypervisor("kvm", {"migration_bandwidth": "64"}) == {"migration_bandwidth": 64}
    with pytest.raises(errors.InvalidError, match="migration_bandwidth cannot be set for an instance"):
        parameters.instance_hypervisor("kvm", {"migration_bandwidth": "64"})
    assert parameters.instance_hypervisor("kvm", {"migration_downtime": 50}) == {"migration_downtime": 50}


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        (7, 7), ("8", 8), ("12m", 12), ("12M", 12), ("1g", 1024), ("1G", 1024), ("1.5g", 1536), ("2t", 2 << 20),
        ("2T", 2 << 20), ("9m", 12),
    ],
)  # fmt: skip
def test_a_size_is_in_mebibytes_with_binary_units(text: int | str, mebibytes: int) -> None:
    assert parameters.size(text) == mebibytes
    assert parameters.backend({"memory": text})["maxmem"] == mebibytes
