"""The base of all commands: declarations and option parsers, list commands, job submission, error texts."""
