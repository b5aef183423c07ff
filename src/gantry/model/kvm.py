"""The parameters of the hypervisor kvm (contracts/hypervisor-parameters.md#defaults).

Ganeti's disk types ``sd``, ``mtd`` and ``pflash`` and its ``kvm_flag`` are not supported, because QEMU no longer has
them; ``accel``, ``firmware`` and ``firmware_path`` are Gantry's own. ``node.hypervisors.kvm.requirements`` checks what
only a node can check, such as paths.
"""

from gantry.model.declarations import Parameter

DISK_TYPES = ("paravirtual", "ide", "scsi", "scsi-hd", "scsi-block", "scsi-generic")
NIC_TYPES = ("paravirtual", "e1000", "rtl8139", "ne2k_pci", "i82551", "i82557b", "i82559er", "pcnet")
PORTS = 65535

MACHINE: dict[str, Parameter] = {
    "accel": Parameter(
        "auto", "Accelerator; auto uses KVM only if a test guest ran with KVM on the node", ("auto", "kvm", "tcg")
    ),
    "acpi": Parameter(True, "Give the guest ACPI"),
    "boot_order": Parameter(
        "disk", "Devices to boot from, in order", ("disk", "cdrom", "network", "floppy"), several=True
    ),
    "cpu_cores": Parameter(0, "Cores of a processor socket; 0 leaves it to QEMU", minimum=0, maximum=1024),
    "cpu_mask": Parameter(
        "all", "Processors of the node to run on: all, a list such as 0-1,3, or such a list for each vCPU, with colons"
    ),
    "cpu_sockets": Parameter(0, "Processor sockets; 0 leaves it to QEMU", minimum=0, maximum=1024),
    "cpu_threads": Parameter(0, "Threads of a core; 0 leaves it to QEMU", minimum=0, maximum=1024),
    "cpu_type": Parameter("", "Processor model; empty for QEMU's own", punctuation="_-+.,:= "),
    "firmware": Parameter("bios", "Firmware; uefi resets its variables at each start", ("bios", "uefi")),
    "firmware_path": Parameter(
        "/usr/share/OVMF/OVMF_CODE_4M.fd", "UEFI firmware file; the file with its variables is in the same folder"
    ),
    "initrd_path": Parameter("", "Initial RAM disk for kernel_path"),
    "kernel_args": Parameter("ro", "Arguments of the kernel"),
    "kernel_path": Parameter("", "Kernel to boot; empty boots from the disk"),
    "kvm_extra": Parameter("", "Further arguments of QEMU"),
    "kvm_path": Parameter("/usr/bin/qemu-system-x86_64", "QEMU program"),
    "kvm_pci_reservations": Parameter(12, "First PCI slot of disks and NICs", minimum=12, maximum=30),
    "machine_version": Parameter("pc", "Machine type; its version is fixed while the guest runs", punctuation="_-."),
    "mem_path": Parameter("", "Folder of a file system of huge pages, for the guest's memory"),
    "reboot_behavior": Parameter("reboot", "What a reboot inside the guest does", ("reboot", "exit")),
    "root_path": Parameter("/dev/vda1", "Root device, passed to the kernel"),
    "security_domain": Parameter("", "User that security_model=user runs QEMU as"),
    "security_model": Parameter(
        "none",
        "User that QEMU runs as: root (none), security_domain (user), or a separate user for each instance (pool)",
        ("none", "user", "pool"),
    ),
    "use_chroot": Parameter(False, "Run QEMU with an empty root folder (chroot)"),
    "use_guest_agent": Parameter(False, "Give the guest a channel for its QEMU guest agent"),
    "use_localtime": Parameter(False, "Set the guest's clock to local time instead of UTC"),
    "user_shutdown": Parameter(False, "Leave a guest down that powers itself off, with status USER_down"),
}

DEVICES: dict[str, Parameter] = {
    "cdrom2_image_path": Parameter("", "ISO image of a second CD-ROM drive"),
    "cdrom_disk_type": Parameter("", "How CD-ROM drives are presented; empty for ide", ("", "ide", "scsi", "scsi-cd")),
    "cdrom_image_path": Parameter("", "ISO image of a CD-ROM drive"),
    "disk_aio": Parameter("threads", "How disks are read and written", ("threads", "native", "io_uring")),
    "disk_cache": Parameter("default", "Cache mode of the disks", ("default", "none", "writethrough", "writeback")),
    "disk_discard": Parameter(
        "default", "Ignore or pass on the guest's discard requests", ("default", "ignore", "unmap")
    ),
    "disk_type": Parameter("paravirtual", "How disks are presented", DISK_TYPES),
    "floppy_image_path": Parameter("", "Image of a floppy disk"),
    "nic_type": Parameter("paravirtual", "Model of the NICs", NIC_TYPES),
    "scsi_controller_type": Parameter("lsi", "Controller of SCSI disks", ("lsi", "megasas", "virtio-scsi-pci")),
    "soundhw": Parameter("", "Sound card", ("", "ac97", "es1370", "hda")),
    "usb_devices": Parameter("", "USB devices, in the syntax of QEMU's -device, separated by spaces"),
    "usb_mouse": Parameter("", "Pointing device on USB", ("", "mouse", "tablet")),
    "vhost_net": Parameter(False, "Process packets of paravirtual NICs in the node's kernel"),
    "virtio_net_queues": Parameter(1, "Queues of a paravirtual NIC", minimum=1, maximum=8),
    "vnet_hdr": Parameter(True, "Offload checksums and segmentation of paravirtual NICs to the node"),
}

CONSOLES: dict[str, Parameter] = {
    # QEMU opens a keymap with a slash as a file of the node.
    "keymap": Parameter("", "Keyboard of the VNC server, such as de", punctuation="_-"),
    "serial_console": Parameter(True, "Give the guest a serial console"),
    "serial_speed": Parameter(38400, "Speed of the serial console", minimum=1),
    "spice_bind": Parameter("", "Address of the SPICE server; empty for none"),
    "spice_image_compression": Parameter(
        "", "Compression of images", ("", "auto_glz", "auto_lz", "quic", "glz", "lz", "off")
    ),
    "spice_ip_version": Parameter(0, "IP version that SPICE may use, 4 or 6; 0 for both", minimum=0, maximum=6),
    "spice_jpeg_wan_compression": Parameter("", "Lossy compression of images", ("", "auto", "never", "always")),
    "spice_password_file": Parameter("", "File with the password of the SPICE server"),
    "spice_playback_compression": Parameter(True, "Compress sound"),
    "spice_streaming_video": Parameter("", "Detection of video streams", ("", "off", "all", "filter")),
    "spice_tls_ciphers": Parameter("HIGH:-DES:-3DES:-EXPORT:-DH", "Ciphers of the SPICE server"),
    "spice_use_tls": Parameter(False, "Encrypt SPICE, with the certificates of vnc_x509_path"),
    "spice_use_vdagent": Parameter(True, "Give the guest a channel for its SPICE agent"),
    "spice_zlib_glz_wan_compression": Parameter("", "Lossless compression of images", ("", "auto", "never", "always")),
    "vga": Parameter("", "Graphics card", ("", "std", "cirrus", "vmware", "qxl", "virtio", "none")),
    "vnc_bind_address": Parameter("", "Address of the VNC server, or folder of its socket; empty for none"),
    "vnc_password_file": Parameter("", "File with the password of the VNC server"),
    "vnc_tls": Parameter(False, "Encrypt VNC, with the certificates of vnc_x509_path"),
    "vnc_x509_path": Parameter("", "Folder of ca-cert.pem, server-cert.pem and server-key.pem"),
    "vnc_x509_verify": Parameter(False, "Require VNC clients to present a certificate of ca-cert.pem"),
}

MIGRATION: dict[str, Parameter] = {
    "migration_bandwidth": Parameter(
        32, "Maximum bandwidth of a migration, in MiB per second", minimum=1, maximum=1 << 20, cluster_wide=True
    ),
    "migration_caps": Parameter("", "QEMU migration capabilities, separated by colons"),
    "migration_downtime": Parameter(
        30, "Maximum downtime at the end of a migration, in milliseconds", minimum=1, maximum=60_000
    ),
    "migration_mode": Parameter(
        "live",
        "Keep the guest running during a migration (live) or pause it (non-live)",
        ("live", "non-live"),
        cluster_wide=True,
    ),
    "migration_port": Parameter(
        8102, "First port on which the target node listens", minimum=1, maximum=PORTS, cluster_wide=True
    ),
}

PARAMETERS = dict(sorted((MACHINE | DEVICES | CONSOLES | MIGRATION).items()))
"""All parameters of kvm."""
