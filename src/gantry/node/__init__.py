"""What happens on one machine: the agent that answers the master's calls, and one driver per file."""
