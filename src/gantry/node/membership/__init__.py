"""A node's membership of its cluster: joining, the fence against former masters, the state's replica, ssconf files."""
