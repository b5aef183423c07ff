"""The parameters of the hypervisors xen-pvm, xen-hvm and chroot (contracts/hypervisor-parameters.md#defaults).

Left out of what Ganeti knows is ``xen_cmd``: Xen has been commanded by ``xl`` alone for long. The defaults of
``kernel_path`` and ``device_model`` of xen-hvm stand for what the node's own Xen brings, wherever that lies.
``node.hypervisors.xen`` checks what only a node can tell.
"""

from gantry.model.declarations import Parameter

NIC_TYPES = ("rtl8139", "paravirtual", "e1000", "ne2k_isa", "ne2k_pci")
PORTS = 65535

BOTH: dict[str, Parameter] = {
    "cpu_cap": Parameter(0, "Percent of a processor that it may use at most; 0 for no limit", minimum=0, maximum=65535),
    "cpu_mask": Parameter(
        "all", "Processors of the node to run on: all, a list such as 0-1,3, or such a list for each vCPU, with colons"
    ),
    "cpu_weight": Parameter(256, "Its share of the processors beside other guests'", minimum=1, maximum=65535),
    "cpuid": Parameter("", "Processor features to show or hide, as xl's cpuid takes them"),
    "migration_port": Parameter(
        8002, "Kept for tools: the node daemons agree on a port", minimum=1, maximum=PORTS, cluster_wide=True
    ),
    "reboot_behavior": Parameter("reboot", "What a reboot inside the guest does", ("reboot", "exit")),
    "soundhw": Parameter("", "Sound card of an HVM guest, as QEMU calls it"),
    "vif_script": Parameter("", "Script that connects NICs; empty for Xen's own"),
}

PARAVIRTUAL: dict[str, Parameter] = BOTH | {
    "blockdev_prefix": Parameter("sd", "Name of the disks without their letter", ("sd", "xvd", "hd")),
    "bootloader_args": Parameter("", "Arguments of the boot loader"),
    "bootloader_path": Parameter("", "Boot loader of the node that finds the kernel on the disk"),
    "initrd_path": Parameter("", "Initial RAM disk that goes with kernel_path"),
    "kernel_args": Parameter("ro", "Arguments of the kernel"),
    "kernel_path": Parameter("/boot/vmlinuz-3-xenU", "Kernel to boot"),
    "migration_mode": Parameter(
        "live",
        "Kept for tools: paravirtual guests are always saved and restored",
        ("live", "non-live"),
        cluster_wide=True,
    ),
    "root_path": Parameter("/dev/xvda1", "Root device that the kernel is told"),
    "use_bootloader": Parameter(False, "Let bootloader_path find the kernel"),
}

FULL: dict[str, Parameter] = BOTH | {
    "acpi": Parameter(True, "Give the guest ACPI"),
    "blockdev_prefix": Parameter(
        "hd", "Name of the disks without their letter; the firmware boots from hd", ("hd", "sd", "xvd")
    ),
    "boot_order": Parameter(
        "cd", "Devices to boot from, in order: c disk, d CD-ROM, n network, a floppy", letters="acdn"
    ),
    "cdrom_image_path": Parameter("", "ISO image of a CD-ROM drive"),
    "device_model": Parameter("/usr/lib/xen/bin/qemu-dm", "The QEMU that emulates devices"),
    "disk_type": Parameter(
        "paravirtual", "Kept for tools: Xen shows each disk emulated and paravirtual", ("paravirtual", "ioemu")
    ),
    "kernel_path": Parameter("/usr/lib/xen/boot/hvmloader", "Firmware, which boots from boot_order"),
    "migration_mode": Parameter(
        "non-live", "Whether guests run on while they are sent", ("live", "non-live"), cluster_wide=True
    ),
    "nic_type": Parameter("rtl8139", "Model of the NICs that are emulated", NIC_TYPES),
    "pae": Parameter(True, "Let a 32-bit guest use memory above 4 GiB"),
    "pci_pass": Parameter("", "PCI devices of the node for it alone, with semicolons between them"),
    "use_localtime": Parameter(False, "The guest's clock shows local time"),
    "vif_type": Parameter("ioemu", "Whether NICs are emulated too, or paravirtual alone", ("ioemu", "vif")),
    "viridian": Parameter(False, "Show a Windows guest the interfaces of Hyper-V"),
    "vnc_bind_address": Parameter("0.0.0.0", "Address of the VNC server; empty for none"),
    "vnc_password_file": Parameter(
        "/etc/gantry/vnc-cluster-password", "File that holds the password of the VNC server; empty for no password"
    ),
}

CHROOT: dict[str, Parameter] = {
    "init_script": Parameter("/ganeti-chroot", "Program on the first disk that is run with start and stop"),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "xen-pvm": dict(sorted(PARAVIRTUAL.items())),
    "xen-hvm": dict(sorted(FULL.items())),
    "chroot": CHROOT,
}
"""All of them, by hypervisor."""
