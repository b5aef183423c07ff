"""All configuration files of a machine together: ``gantry-node --check`` and ``gantry doctor`` check them.

A machine may have only some of the daemons: the file of a program that is not installed is not checked.
"""

import difflib
import importlib
from collections.abc import Iterator

from gantry.daemons.options import config_file
from gantry.runtime import interface, paths

MODULES = {
    "node.toml": "gantry.daemons.node",
    "master.toml": "gantry.daemons.options.master_options",
    "api.toml": "gantry.daemons.remote",
    "watcher.toml": "gantry.daemons.watcher",
    "kube.toml": "gantry.daemons.kube",
}
"""Each file, and the module that has its program as ``CONFIGURATION``."""


def program(file: str) -> config_file.Program | None:
    """Return the program of a file; None if it is not installed."""
    try:
        module = importlib.import_module(MODULES[file])
    except ModuleNotFoundError:
        return None
    out = module.CONFIGURATION
    assert isinstance(out, config_file.Program), file
    return out


def files(disk: interface.Disk, folders: paths.Paths) -> list[str]:
    """Return the names of the files in the folder ``etc`` that daemons might read, sorted."""
    try:
        return [name for name in disk.names(folders.etc) if name.endswith(".toml")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def faults(disk: interface.Disk, folders: paths.Paths, file: str) -> Iterator[config_file.Fault]:
    """Yield the faults of a file in the folder ``etc``; a name that no daemon reads is one."""
    path = f"{folders.etc}/{file}"
    if file not in MODULES:
        nearest = difflib.get_close_matches(file, MODULES, 1, 0.5)
        hint = f"did you mean {nearest[0]}?" if nearest else f"the files are {', '.join(MODULES)}"
        yield config_file.Fault(path, 0, f"no daemon reads this file; {hint}")
    elif owner := program(file):
        yield from config_file.read(owner, path, disk)[1]
