"""Units for the cluster as a whole: settings, tags, verification, configuration files."""
