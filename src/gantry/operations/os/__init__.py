"""OS definitions: which nodes have them, and whether an instance can be installed with one."""
