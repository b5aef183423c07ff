"""The master daemon as a service of systemd: commands that start it leave it as the unit ``gantry-masterd``.

That is so where systemd runs the machine, the unit is installed and no GANTRY_ROOT is set; elsewhere ``master_daemon``
starts the program itself.
"""

import subprocess

from gantry.cli import errors, machine

UNIT = machine.MASTER_UNIT


def start() -> None:
    """Start the master's unit and return when the daemon serves; CommandError."""
    _systemctl("start", "did not start")


def stop() -> None:
    """Stop the master's unit, and attempts of systemd to start it again; CommandError."""
    _systemctl("stop", "was not stopped")


def _systemctl(action: str, failure: str) -> None:
    try:
        process = subprocess.run(
            ["systemctl", action, UNIT], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise errors.CommandError(f"cannot run systemctl: {error.strerror}") from None
    if process.returncode:
        reason = process.stderr.strip().partition("\n")[0] or f"systemctl ended with exit code {process.returncode}"
        raise errors.CommandError(f"the service {UNIT} {failure}: {reason}", hint=f"see {machine.master_log()}")
