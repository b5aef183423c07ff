"""Node groups, and instances that change theirs."""
