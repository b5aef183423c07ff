"""What all commands share: the tables that declare them, list commands, submitting jobs, shell completion."""
