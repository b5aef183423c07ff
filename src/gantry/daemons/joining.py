"""``gantry-node join``: adds this machine to a cluster by an invitation of ``gnt-node add``.

    lib/join-token          read: what the local node daemon, which has no cluster yet, has made for the master
    run/node-daemon.lock    held by that daemon while it runs

The machine asks a node of the cluster, by default at port 1811, to prove that it belongs to the cluster which made the
invitation; it sends the secret only after that, over a connection with the proven key. A node that is not the master's
names the one that is. From then on the master does the work: it calls the local daemon, as for ``gnt-node add
--join-token-file``, while this program prints the messages of the job. Nothing is written by this program.

See explanation/security.md#joining-by-invitation.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from gantry import errors, security
from gantry.lib_files import member as member_file
from gantry.rpc import calls, exchange, targets
from gantry.runtime import http_interface, interface, paths

PORT = 1811
REDIRECTIONS = 3
"""How many nodes may name another master, before the machine gives up."""

FAILURES = 5
"""How many times in succession news of the job may fail to arrive."""

RETRY_SECONDS = 2.0
DAEMON_SECONDS = 10.0
"""How long to wait for the join token of a daemon that has just begun to run, or has just left a cluster."""

POLL_SECONDS = 0.2
FINAL = ("success", "error", "canceled")

_TOKEN = re.compile(r"[0-9a-f]{48}")
_ANOTHER = "gnt-node add NODE on the master makes another token"

Result = TypeVar("Result")


class Connection(NamedTuple):
    """Connections to one server, and a function that returns the digest of the key which that server presents."""

    http: http_interface.Client
    key: Callable[[], str]


class Request(NamedTuple):
    """What the administrator of the machine asks for; an empty ``address`` is the one that the master sees."""

    master: str
    token: str
    name: str
    address: str = ""


def connect(network: interface.Network) -> Connection:
    """Return connections over TLS whose server's key is not known before the first."""
    tls = security.first_key_context()
    return Connection(network.http_client(tls=tls), tls.key)


class Joining:
    """One run of the command; ``report`` gets the lines to print, ``connect`` makes the connections to a server."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        report: Callable[[str], None],
        connect: Callable[[targets.Target], Connection],
    ) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._folders = folders
        self._report = report
        self._connect = connect

    async def run(self, request: Request) -> None:
        """Join, and return when the machine is a node; raises a GantryError that says what to do."""
        try:
            await self._run(request)
        except errors.GantryError as error:
            error.message, error.hint = printable(error.message), printable(error.hint)
            raise

    async def _run(self, request: Request) -> None:
        token = request.token.strip()
        if not _TOKEN.fullmatch(token):
            raise errors.InvalidError(
                "this is not a token: it has 48 digits from 0 to 9 and a to f",
                hint="copy the whole line that gnt-node add printed",
            )
        target = _target(request.master)
        own_token = await self._own_token()
        for _ in range(REDIRECTIONS + 1):
            connection = self._connect(target)
            try:
                proven = await self._prove(connection, target, token)
                if proven.master is None:
                    await self._use(connection, target, request._replace(token=token), own_token)
                    return
            finally:
                await connection.http.close()
            self._report(f"the master is at {proven.master[0]} port {proven.master[1]}")
            target = targets.Target("", proven.master[0], *proven.master)
        raise errors.RemoteError(
            f"{REDIRECTIONS} nodes have named another master each",
            hint="repeat the command when the master has settled",
        )

    async def _own_token(self) -> str:
        """Return the join token of the local daemon; raises an error if this machine cannot join now."""
        end = self._runtime.clock.monotonic() + DAEMON_SECONDS
        try:
            while not (token := self._ready_token()):
                if not self._daemon_runs() or self._runtime.clock.monotonic() >= end:
                    raise errors.WrongStateError(
                        f"no gantry-noded runs here with the files in {self._folders.lib}, or it has just begun to",
                        hint="start it, for example with systemctl start gantry-noded, and repeat the command",
                    )
                await self._runtime.clock.sleep(POLL_SECONDS)
        except PermissionError:
            raise errors.ForbiddenError(
                "only root may let this machine join", hint="repeat the command as root"
            ) from None
        return token

    def _ready_token(self) -> str:
        """Return the join token of the local daemon, empty without one; WrongStateError for a node of a cluster."""
        try:
            if member := self._membership():
                raise errors.WrongStateError(
                    f"this machine already is node {member.node} of cluster {member.cluster}",
                    hint=f"to move it, run gnt-node remove {member.node} on that cluster's master first; if the master "
                    f"does not reach it, stop gantry-noded and remove {self._folders.lib}",
                )
            if not self._daemon_runs():
                return ""
            return self._disk.read(f"{self._folders.lib}/join-token").decode().strip()
        except FileNotFoundError:
            return ""

    def _daemon_runs(self) -> bool:
        try:
            self._disk.lock(f"{self._folders.run}/node-daemon.lock").release()
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def _membership(self) -> member_file.Member | None:
        folder = self._folders.certificates
        if not self._disk.exists(f"{folder}/node.pem"):
            return None
        return member_file.decode(self._disk.read(member_file.path(folder)))

    async def _prove(self, connection: Connection, target: targets.Target, token: str) -> calls.Proven:
        """Return the checked proof of a server, or where the master is; WrongStateError if it has none."""
        secret_hash = security.invitation.hash_of(token)
        nonce = self._runtime.random.token(security.invitation.NONCE_BYTES).hex()
        call = calls.ProveInvitation(invitation=security.invitation.id_of(secret_hash), nonce=nonce)
        try:
            proven = await exchange.make(connection.http, target, call, headers={})
        except errors.ProtocolError as error:
            raise errors.WrongStateError(
                f"{target.address} port {target.port} cannot admit this machine: {error.message}",
                hint="name a machine of the cluster; one without a cluster, or with an older version, does not do",
            ) from None
        except errors.RemoteError as error:
            error.hint = (
                "is this the address of a machine of the cluster, does gantry-noded run there, and do firewalls let "
                f"this machine connect to port {target.port}?"
            )
            raise
        if proven.master is None:
            expected = security.invitation.proof(secret_hash, nonce, connection.key())
            if not security.invitation.is_equal(proven.proof, expected):
                raise errors.WrongStateError(
                    f"what answers at {target.address} port {target.port} is not the cluster that made the token, or "
                    "something is between it and this machine; the token was not sent",
                    hint=f"check the address; {_ANOTHER}",
                )
        return proven

    async def _use(self, connection: Connection, target: targets.Target, request: Request, own_token: str) -> None:
        """Send token and join token, and print the messages of the job until it ends."""
        call = calls.UseInvitation(
            secret=request.token, join_token=own_token, node=request.name, address=request.address
        )
        failures = 0
        while True:
            try:
                progress = await exchange.make(connection.http, target, call, headers={})
            except errors.GantryError as error:
                failures += 1
                if self._has_joined():
                    return
                if not call.job or failures >= FAILURES or not isinstance(error, errors.RemoteError):
                    raise _lost(error, call.job) from None
                await self._runtime.clock.sleep(RETRY_SECONDS)
                continue
            failures = 0
            if not call.job:
                self._report(f"job {progress.job} of the cluster adds this machine")
            for _, _, text in progress.log:
                self._report(printable(text))
            if progress.status in FINAL:
                self._end(progress)
                return
            serial = max([call.serial, *(serial for serial, _, _ in progress.log)])
            call = msgspec.structs.replace(call, job=progress.job, serial=serial)

    def _end(self, progress: calls.JoinProgress) -> None:
        if progress.status == "success":
            member = self._membership()
            names = f"{member.node} of cluster {member.cluster}" if member else "a node of the cluster"
            self._report(f"this machine is now {names}")
            return
        name, arguments = progress.error or ("", [f"it ended with {progress.status}"])
        failure = errors.from_luxi(name, arguments)
        failure.message = f"job {progress.job} could not add this machine: {failure.message}"
        failure.hint = "nothing was changed; remove the cause and repeat the command while the token is valid"
        raise failure

    def _has_joined(self) -> bool:
        """Return whether the machine has become a member although the answer was lost."""
        member = self._membership()
        if member:
            self._report(
                f"this machine is now {member.node} of cluster {member.cluster}; its master has stopped answering"
            )
        return member is not None


def _lost(error: errors.GantryError, job: int) -> errors.GantryError:
    if job:
        error.hint = f"job {job} may still run: gnt-job watch {job} on the master shows it"
    return error


def printable(text: str) -> str:
    """Return a text from elsewhere without characters that control a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text[:2000])


def _target(text: str) -> targets.Target:
    """Return the server that ``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT`` means; InvalidError."""
    host, port = text, str(PORT)
    if bracketed := re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text):
        host, port = bracketed[1], bracketed[2] or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    elif ":" in text:
        try:
            ipaddress.IPv6Address(text.partition("%")[0])
        except ValueError:
            host = ""
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise errors.InvalidError(
            f"{text!r} is not the address of a master", hint="write HOST, HOST:PORT or [ADDRESS]:PORT"
        )
    return targets.Target("", host, host, int(port))
