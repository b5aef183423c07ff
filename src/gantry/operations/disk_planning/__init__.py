"""What all units that handle disks share: their specification, their volumes as steps, copies between nodes."""
