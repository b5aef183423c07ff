"""The parameters of the hypervisors xen-pvm, xen-hvm and chroot (contracts/hypervisor-parameters.md#defaults).

Ganeti's ``xen_cmd`` is not supported, because ``xl`` is Xen's only command today. The defaults of ``kernel_path`` and
``device_model`` of xen-hvm mean the files of the node's own Xen, at any path. ``node.hypervisors.xen`` checks what only
a node can check, such as paths.
"""

from gantry.model.declarations import Parameter

NIC_TYPES = ("rtl8139", "paravirtual", "e1000", "ne2k_isa", "ne2k_pci")
PORTS = 65535

BOTH: dict[str, Parameter] = {
    "cpu_cap": Parameter(
        0, "Maximum processor use, in percent of a processor; 0 for no limit", minimum=0, maximum=65535
    ),
    "cpu_mask": Parameter(
        "all", "Processors of the node to run on: all, a list such as 0-1,3, or such a list for each vCPU, with colons"
    ),
    "cpu_weight": Parameter(256, "Share of the processors, relative to other guests", minimum=1, maximum=65535),
    "cpuid": Parameter("", "Processor features to show or hide, in the syntax of xl's cpuid"),
    "migration_port": Parameter(
        8002,
        "Accepted for older tools; has no effect: the node daemons agree on a port",
        minimum=1,
        maximum=PORTS,
        cluster_wide=True,
    ),
    "reboot_behavior": Parameter("reboot", "What a reboot inside the guest does", ("reboot", "exit")),
    "soundhw": Parameter("", "Sound card of an HVM guest, by QEMU's name", punctuation="_-,"),
    "vif_script": Parameter("", "Script that connects NICs; empty for Xen's own"),
}

PARAVIRTUAL: dict[str, Parameter] = BOTH | {
    "blockdev_prefix": Parameter("sd", "Prefix of disk names, before the letter", ("sd", "xvd", "hd")),
    "bootloader_args": Parameter("", "Arguments of the boot loader"),
    "bootloader_path": Parameter("", "Boot loader on the node, which finds the kernel on the disk"),
    "initrd_path": Parameter("", "Initial RAM disk for kernel_path"),
    "kernel_args": Parameter("ro", "Arguments of the kernel"),
    "kernel_path": Parameter("/boot/vmlinuz-3-xenU", "Kernel to boot"),
    "migration_mode": Parameter(
        "live",
        "Accepted for older tools; has no effect: paravirtual guests are always saved and restored",
        ("live", "non-live"),
        cluster_wide=True,
    ),
    "root_path": Parameter("/dev/xvda1", "Root device, passed to the kernel"),
    "use_bootloader": Parameter(False, "Let bootloader_path find the kernel"),
}

FULL: dict[str, Parameter] = BOTH | {
    "acpi": Parameter(True, "Give the guest ACPI"),
    "blockdev_prefix": Parameter(
        "hd", "Prefix of disk names, before the letter; the firmware boots from hd", ("hd", "sd", "xvd")
    ),
    "boot_order": Parameter(
        "cd", "Devices to boot from, in order: c disk, d CD-ROM, n network, a floppy", letters="acdn"
    ),
    "cdrom_image_path": Parameter("", "ISO image of a CD-ROM drive"),
    "device_model": Parameter("/usr/lib/xen/bin/qemu-dm", "QEMU program that emulates devices"),
    "disk_type": Parameter(
        "paravirtual",
        "Accepted for older tools; has no effect: each disk is both emulated and paravirtual",
        ("paravirtual", "ioemu"),
    ),
    "kernel_path": Parameter("/usr/lib/xen/boot/hvmloader", "Firmware, which boots from boot_order"),
    "migration_mode": Parameter(
        "non-live",
        "Keep the guest running during a migration (live) or pause it (non-live)",
        ("live", "non-live"),
        cluster_wide=True,
    ),
    "nic_type": Parameter("rtl8139", "Model of emulated NICs", NIC_TYPES),
    "pae": Parameter(True, "Let a 32-bit guest use memory above 4 GiB"),
    "pci_pass": Parameter("", "PCI devices of the node to pass to the guest, separated by semicolons"),
    "use_localtime": Parameter(False, "Set the guest's clock to local time instead of UTC"),
    "vif_type": Parameter(
        "ioemu", "Present NICs as emulated and paravirtual (ioemu), or as paravirtual only (vif)", ("ioemu", "vif")
    ),
    "viridian": Parameter(False, "Provide Hyper-V interfaces to a Windows guest"),
    "vnc_bind_address": Parameter("0.0.0.0", "Address of the VNC server; empty for none"),
    "vnc_password_file": Parameter(
        "/etc/gantry/vnc-cluster-password", "File with the password of the VNC server; empty for no password"
    ),
}

CHROOT: dict[str, Parameter] = {
    "init_script": Parameter("/ganeti-chroot", "Program on the first disk, called with start and with stop"),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "xen-pvm": dict(sorted(PARAVIRTUAL.items())),
    "xen-hvm": dict(sorted(FULL.items())),
    "chroot": CHROOT,
}
"""The parameters of each hypervisor."""
