"""Every change in order: records, the files that they are in, and what these say about the past."""
