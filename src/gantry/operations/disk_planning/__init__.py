"""What all units that handle disks share: disk specifications, volumes as steps, copies between nodes."""
