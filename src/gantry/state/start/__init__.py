"""From the files on a machine to a state, or to the reason why they cannot be one."""
