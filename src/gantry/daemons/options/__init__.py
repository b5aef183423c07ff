"""What the programs read: their options, the files of a machine in ``/etc/gantry``, and limits that both may set."""
