"""Drivers of Xen's hypervisors over the stand-in for ``xl`` (see ``xl``), with bridges for whoever asks."""

import sys
from pathlib import Path

from tests.node import samples

from gantry.model import parameters as known
from gantry.node import drivers
from gantry.node.hypervisors.xen import driver as xen
from gantry.node.hypervisors.xen import machine
from gantry.node.network import segment_bridges, taps
from gantry.rpc import calls
from gantry.runtime import paths

STAND_IN = Path(__file__).with_name("xl.py")


class Bridges(taps.Bridged):
    """Bridged NICs where every bridge is there, and nothing is done."""

    async def validate(self, nic: calls.Nic) -> None:
        del nic

    async def update(self, instance: calls.Instance, nic: calls.Nic, *, interface: str = "") -> None:
        del instance, nic
        assert interface


def folder(folders: paths.Paths) -> Path:
    """Return where the stand-in keeps the domains of a node."""
    return Path(folders.run) / "xl-domains"


def program(folders: paths.Paths) -> str:
    """Make the program that the driver of a node calls, and return its path."""
    path = Path(folders.run) / "xl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {STAND_IN} {folder(folders)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def driver(kind: str, folders: paths.Paths) -> xen.Xen:
    """Return the driver of a node without certificates."""
    runtime = samples.runtime()
    parts = drivers.Registry(
        runtime, nics={"bridged": Bridges(runtime, folders.etc, segments=segment_bridges.Segments(runtime))}
    )
    return xen.Xen(kind, runtime, folders, parts=parts, secure=False, program=program(folders))


def parameters(kind: str, **changes: calls.Value) -> dict[str, calls.Value]:
    """Return the filled parameters of a guest that any machine can have."""
    own: dict[str, calls.Value] = (
        {"kernel_path": sys.executable} if kind == machine.PARAVIRTUAL else {"vnc_bind_address": ""}
    )
    return {**known.fill(known.HYPERVISORS[kind]), **own, **changes}
