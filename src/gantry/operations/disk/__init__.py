"""Units that activate, grow, change, convert, recreate and replace disks of instances."""
