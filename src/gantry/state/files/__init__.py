"""The state in files that people can read: the checkpoint, the files of jobs, the archive."""
