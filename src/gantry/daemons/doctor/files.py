"""Checks of files and folders: permissions, free space, certificates, the state of another cluster, configuration."""

from collections.abc import Sequence

import msgspec

from gantry import security
from gantry.daemons.doctor.result import Level, Machine, Result
from gantry.daemons.options import machine_files
from gantry.state.files import checkpoint

DAY_SECONDS = 86_400.0
WARNING_DAYS = 30
"""The watcher renews certificates 60 days before their end: one that is nearer to its end was not renewed."""

LOW_BYTES, FULL_BYTES = 1 << 30, 100 << 20
"""Free space below which a folder is nearly full, and full: the journal stops the master without free space."""


class _Head(msgspec.Struct):
    """The beginning of a ``config.data``, of any version."""

    version: int = 0


async def folders(machine: Machine) -> Sequence[Result]:
    """Report folders and secrets that users other than root may read or change."""
    paths = machine.folders
    bad: list[Result] = []
    for folder, forbidden in ((paths.lib, 0o022), (paths.run, 0o002), (paths.log, 0o002), (paths.etc, 0o022)):
        bad += _loose(machine, folder, forbidden)
    bad += _loose(machine, paths.certificates, 0o077)
    if machine.disk.exists(paths.certificates):
        for name in machine.disk.names(paths.certificates):
            bad += _loose(machine, f"{paths.certificates}/{name}", 0o077 if name.endswith(".key") else 0o022)
    remote = (paths.users, paths.remote_certificate, paths.issued_remote_certificate)
    secrets = (paths.keystone_password, paths.oidc_secret)
    for secret in (*remote, *secrets, f"{paths.etc}/authority-secret"):
        bad += _loose(machine, secret, 0o027)
    return bad or [Result("permissions", Level.OK, "only root can change the folders and read the secrets")]


def _loose(machine: Machine, path: str, forbidden: int) -> list[Result]:
    if not machine.disk.exists(path):
        return []
    mode = machine.disk.status(path).mode & 0o7777
    if not mode & forbidden:
        return []
    text = f"{path} has the mode {mode:04o}, so users other than root can use it"
    return [Result("permissions", Level.ERROR, text, f"chmod {mode & ~forbidden:04o} {path}")]


async def free_space(machine: Machine) -> Sequence[Result]:
    """Report folders without free space."""
    out: list[Result] = []
    for folder in (machine.folders.lib, machine.folders.log, machine.folders.srv):
        free, total = machine.disk.free_space(_existing(machine, folder))
        text = f"{folder} has {free >> 20} MiB free of {total >> 20} MiB"
        if free >= LOW_BYTES:
            out.append(Result("free space", Level.OK, text))
        else:
            level = Level.ERROR if free < FULL_BYTES else Level.WARNING
            out.append(Result("free space", level, text, f"remove files, or enlarge the file system of {folder}"))
    return out


def _existing(machine: Machine, folder: str) -> str:
    """Return a folder, or that above it in which it would be created."""
    while folder != "/" and not machine.disk.exists(folder):
        folder = folder.rpartition("/")[0] or "/"
    return folder


async def certificates(machine: Machine) -> Sequence[Result]:
    """Report certificates that have ended, that end soon, or that begin in the future."""
    paths = machine.folders
    out: list[Result] = []
    for path in (f"{paths.certificates}/node.pem", f"{paths.certificates}/authority.pem", paths.remote_certificate):
        if not machine.disk.exists(path):
            continue
        try:
            begin, end = security.validity_of(machine.disk.read(path))
        except ValueError:
            text, remedy = f"{path} is not a certificate", "restore it from a backup, or add the node again"
            out.append(Result("certificates", Level.ERROR, text, remedy))
            continue
        out.append(_validity(path, begin, end, machine.runtime.clock.now()))
    return out


def _validity(path: str, begin: float, end: float, now: float) -> Result:
    age, remaining = (now - begin) / DAY_SECONDS, (end - now) / DAY_SECONDS
    renew = "run gnt-cluster renew-crypto on the master, and keep gantry-watcher running"
    if remaining <= 0:
        return Result("certificates", Level.ERROR, f"{path} ended {-remaining:.0f} days ago", renew)
    if age < 0:
        text = f"{path} is valid only in {-age:.1f} days, by the clock of this machine"
        return Result("certificates", Level.ERROR, text, "set the clock")
    text = f"{path} is {age:.0f} days old and ends in {remaining:.0f} days"
    if remaining < WARNING_DAYS:
        return Result("certificates", Level.WARNING, text, renew)
    return Result("certificates", Level.OK, text)


async def state(machine: Machine) -> Sequence[Result]:
    """Report the state of another cluster or of another version in ``lib``."""
    paths = machine.folders
    out: list[Result] = []
    has_state = machine.disk.exists(paths.config)
    if has_state:
        try:
            version = msgspec.json.decode(machine.disk.read(paths.config), type=_Head).version
        except msgspec.MsgspecError:
            text, remedy = f"{paths.config} is not valid JSON", "run gantry-masterd recover on the master"
            return [Result("state", Level.ERROR, text, remedy)]
        if version > checkpoint.VERSION:
            text = f"{paths.config} has the format {version}; this software writes {checkpoint.VERSION}"
            out.append(
                Result("state", Level.ERROR, text, "install the version of Gantry that wrote it, or a newer one")
            )
        elif version < checkpoint.VERSION:
            text = f"{paths.config} has the older format {version}"
            out.append(
                Result("state", Level.WARNING, text, "nothing, or a backup: the master upgrades it at its start")
            )
    if machine.member is None:
        remains = [path for path in (paths.config, paths.journal, paths.ssconf) if _has_content(machine, path)]
        if remains:
            text = f"this machine belongs to no cluster, but has the state of another one: {', '.join(remains)}"
            remedy = f"move {paths.lib} away before the machine joins a cluster or creates one"
            out.append(Result("state", Level.ERROR, text, remedy))
    return out or [Result("state", Level.OK, f"{paths.lib} has no state of another cluster or version")]


def _has_content(machine: Machine, path: str) -> bool:
    if not machine.disk.exists(path):
        return False
    return not machine.disk.status(path).is_directory or bool(machine.disk.names(path))


async def configuration(machine: Machine) -> Sequence[Result]:
    """Report the faults of the configuration files."""
    files = machine_files.files(machine.disk, machine.folders)
    faults = [fault for file in files for fault in machine_files.faults(machine.disk, machine.folders, file)]
    if not faults:
        names = ", ".join(files) or "no file, so the defaults apply"
        return [Result("configuration", Level.OK, f"{machine.folders.etc}: {names}")]
    remedy = "correct the line; gantry-node --check checks the files again"
    return [Result("configuration", Level.ERROR, str(fault), remedy) for fault in faults]
