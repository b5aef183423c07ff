"""Disks of instances: activated, grown, changed, converted, recreated, replaced."""
