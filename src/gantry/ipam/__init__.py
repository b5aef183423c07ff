"""Who keeps allocations of addresses: the driver interface and the drivers behind it."""
