"""The hypervisor ``kvm``: QEMU processes, controlled over QMP."""
