"""The calls about Gantry's own Debian packages on a node: their version, and the change to another one.

The changes are made by units of systemd, outside of the node daemon, which restarts meanwhile
(``node.daemon.packages``). A master of every version may make these calls.
"""

from typing import Annotated, ClassVar

import msgspec

from gantry.rpc.calls.base import FAST, Call, Message

PackageVersion = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^(?:[0-9]{1,9}:)?[0-9][A-Za-z0-9.+~-]*$(?!\n)")]
"""A version of a Debian package; it begins with a digit, so no program takes it for an option."""

ConfirmSeconds = Annotated[int, msgspec.Meta(ge=0, le=86400)]
"""How long a node waits for the confirmation of a new version before it installs the former one again; 0: for ever."""


class PackagesReport(Message, frozen=True):
    """The packages of a node: the ``installed`` version, and the version with which the node daemon was ``started``.

    ``installed`` is empty if there are no packages, or if they are not all of one version and configured: then
    ``fault`` says which are there. ``busy``: the packages are changing. ``unconfirmed``: the node goes back to the
    former version unless that is confirmed. ``fault`` also has the last lines of a change that has failed.
    """

    installed: str = ""
    started: str = ""
    busy: bool = False
    unconfirmed: bool = False
    fault: str = ""


class PackagesStatus(Call[PackagesReport], frozen=True):
    """Return the version of the packages, and whether they are changing."""

    READS: ClassVar[bool] = True
    ANY_PROTOCOL: ClassVar[bool] = True


class PackagesOffer(Message, frozen=True):
    """What the packages of a version say of it: protocol numbers (``protocol``), format version of the state."""

    protocol: str = ""
    state: int = 0


class PackagesCheck(Call[PackagesOffer], frozen=True):
    """Download the packages of a version, and those of the installed version, which the way back needs.

    EnvironmentFaultError if apt cannot get one of them.
    """

    LIMIT: ClassVar[float] = FAST
    ANY_PROTOCOL: ClassVar[bool] = True
    version: PackageVersion


class PackagesInstall(Call[None], frozen=True):
    """Begin to install a version of all packages that are there; the answer comes before apt has ended.

    The node goes back by itself unless ``PackagesConfirm`` arrives within ``confirm_seconds``, or never if that is 0.
    BusyError if the packages are changing already.
    """

    ANY_PROTOCOL: ClassVar[bool] = True
    version: PackageVersion
    confirm_seconds: ConfirmSeconds


class PackagesConfirm(Call[None], frozen=True):
    """Keep a version, which the node daemon runs; WrongStateError if it does not."""

    ANY_PROTOCOL: ClassVar[bool] = True
    version: PackageVersion
