"""The hypervisor ``kvm``: QEMU processes, commanded over QMP."""
