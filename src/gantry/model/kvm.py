"""The parameters of the hypervisor kvm (contracts/hypervisor-parameters.md#defaults).

Left out of what Ganeti knows are the disk types ``sd``, ``mtd`` and ``pflash`` and the flag ``kvm_flag`` of machines
that do not exist any more; ``accel``, ``firmware`` and its file are ours. ``node.hypervisors.kvm.requirements`` checks
what only a node can tell.
"""

from gantry.model.declarations import Parameter

DISK_TYPES = ("paravirtual", "ide", "scsi", "scsi-hd", "scsi-block", "scsi-generic")
NIC_TYPES = ("paravirtual", "e1000", "rtl8139", "ne2k_pci", "i82551", "i82557b", "i82559er", "pcnet")
PORTS = 65535

MACHINE: dict[str, Parameter] = {
    "accel": Parameter(
        "auto", "Accelerator; auto uses KVM only where a guest really runs with it", ("auto", "kvm", "tcg")
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
    "cpu_type": Parameter("", "Processor model; empty for QEMU's own"),
    "firmware": Parameter(
        "bios", "What boots the machine; uefi forgets its variables with each start", ("bios", "uefi")
    ),
    "firmware_path": Parameter("/usr/share/OVMF/OVMF_CODE_4M.fd", "UEFI firmware; its variables lie beside it"),
    "initrd_path": Parameter("", "Initial RAM disk that goes with kernel_path"),
    "kernel_args": Parameter("ro", "Arguments of the kernel"),
    "kernel_path": Parameter("", "Kernel to boot; empty boots from the disk"),
    "kvm_extra": Parameter("", "Further arguments of QEMU"),
    "kvm_path": Parameter("/usr/bin/qemu-system-x86_64", "The QEMU program"),
    "kvm_pci_reservations": Parameter(12, "First PCI slot of disks and NICs", minimum=12, maximum=30),
    "machine_version": Parameter("pc", "Machine type; its version is fixed while the guest runs"),
    "mem_path": Parameter("", "Folder of a file system of huge pages, for the guest's memory"),
    "reboot_behavior": Parameter("reboot", "What a reboot inside the guest does", ("reboot", "exit")),
    "root_path": Parameter("/dev/vda1", "Root device that the kernel is told"),
    "security_domain": Parameter("", "User that security_model=user runs QEMU as"),
    "security_model": Parameter(
        "none", "Who QEMU runs as; pool takes a user of its own for each", ("none", "user", "pool")
    ),
    "use_chroot": Parameter(False, "Lock QEMU into an empty folder"),
    "use_guest_agent": Parameter(False, "Give the guest a channel for its QEMU guest agent"),
    "use_localtime": Parameter(False, "The guest's clock shows local time"),
    "user_shutdown": Parameter(False, "A guest that switches itself off stays off"),
}

DEVICES: dict[str, Parameter] = {
    "cdrom2_image_path": Parameter("", "ISO image of a second CD-ROM drive"),
    "cdrom_disk_type": Parameter("", "How CD-ROM drives are presented; empty for ide", ("", "ide", "scsi", "scsi-cd")),
    "cdrom_image_path": Parameter("", "ISO image of a CD-ROM drive"),
    "disk_aio": Parameter("threads", "How disks are read and written", ("threads", "native", "io_uring")),
    "disk_cache": Parameter("default", "Cache mode of the disks", ("default", "none", "writethrough", "writeback")),
    "disk_discard": Parameter(
        "default", "What becomes of blocks that the guest gives up", ("default", "ignore", "unmap")
    ),
    "disk_type": Parameter("paravirtual", "How disks are presented", DISK_TYPES),
    "floppy_image_path": Parameter("", "Image of a floppy disk"),
    "nic_type": Parameter("paravirtual", "Model of the NICs", NIC_TYPES),
    "scsi_controller_type": Parameter("lsi", "Controller of SCSI disks", ("lsi", "megasas", "virtio-scsi-pci")),
    "soundhw": Parameter("", "Sound card", ("", "ac97", "es1370", "hda")),
    "usb_devices": Parameter("", "USB devices, as QEMU's -device takes them, with blanks between them"),
    "usb_mouse": Parameter("", "Pointing device on USB", ("", "mouse", "tablet")),
    "vhost_net": Parameter(False, "Let the node's kernel move the packets of paravirtual NICs"),
    "virtio_net_queues": Parameter(1, "Queues of a paravirtual NIC", minimum=1, maximum=8),
    "vnet_hdr": Parameter(True, "Let paravirtual NICs leave checksums and segments to the node"),
}

CONSOLES: dict[str, Parameter] = {
    "keymap": Parameter("", "Keyboard of the VNC server, such as de"),
    "serial_console": Parameter(True, "Give the guest a serial console"),
    "serial_speed": Parameter(38400, "Speed of the serial console", minimum=1),
    "spice_bind": Parameter("", "Address of the SPICE server; empty for none"),
    "spice_image_compression": Parameter(
        "", "Compression of images", ("", "auto_glz", "auto_lz", "quic", "glz", "lz", "off")
    ),
    "spice_ip_version": Parameter(0, "4 or 6 lets SPICE use nothing else", minimum=0, maximum=6),
    "spice_jpeg_wan_compression": Parameter("", "Compression with losses", ("", "auto", "never", "always")),
    "spice_password_file": Parameter("", "File that holds the password of the SPICE server"),
    "spice_playback_compression": Parameter(True, "Compress sound"),
    "spice_streaming_video": Parameter("", "What counts as video", ("", "off", "all", "filter")),
    "spice_tls_ciphers": Parameter("HIGH:-DES:-3DES:-EXPORT:-DH", "Ciphers of the SPICE server"),
    "spice_use_tls": Parameter(False, "Encrypt SPICE, with the certificates of vnc_x509_path"),
    "spice_use_vdagent": Parameter(True, "Give the guest a channel for its SPICE agent"),
    "spice_zlib_glz_wan_compression": Parameter("", "Compression without losses", ("", "auto", "never", "always")),
    "vga": Parameter("", "Graphics card", ("", "std", "cirrus", "vmware", "qxl", "virtio", "none")),
    "vnc_bind_address": Parameter("", "Address of the VNC server, or folder of its socket; empty for none"),
    "vnc_password_file": Parameter("", "File that holds the password of the VNC server"),
    "vnc_tls": Parameter(False, "Encrypt VNC, with the certificates of vnc_x509_path"),
    "vnc_x509_path": Parameter("", "Folder of ca-cert.pem, server-cert.pem and server-key.pem"),
    "vnc_x509_verify": Parameter(False, "VNC clients must show a certificate of that authority"),
}

MIGRATION: dict[str, Parameter] = {
    "migration_bandwidth": Parameter(
        32, "MiB a second that a migration may send", minimum=1, maximum=1 << 20, cluster_wide=True
    ),
    "migration_caps": Parameter("", "Capabilities of QEMU to migrate with, with colons between them"),
    "migration_downtime": Parameter(
        30, "Milliseconds that a guest may stand still at the end", minimum=1, maximum=60_000
    ),
    "migration_mode": Parameter(
        "live", "Whether guests run on while they are sent", ("live", "non-live"), cluster_wide=True
    ),
    "migration_port": Parameter(
        8102, "First port that a target may listen on", minimum=1, maximum=PORTS, cluster_wide=True
    ),
}

PARAMETERS = dict(sorted((MACHINE | DEVICES | CONSOLES | MIGRATION).items()))
"""All of them."""
