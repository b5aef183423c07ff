"""Front ends: a package per wire protocol, and the watcher; none imports another, apart from the shared ``http``."""
