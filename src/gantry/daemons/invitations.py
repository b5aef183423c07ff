"""Answers machines that knock at a node's port with an invitation; the node daemon calls it for clients of any kind.

On the master's machine a request goes to the master daemon, by LUXI; only the two methods about invitations can be
reached this way. A node that is not the master's names the one that is. That answer needs no proof: the machine asks
the node that it names for one.

A secret has 192 random bits, so nobody guesses one; what is limited is the load. The attempts of each peer with tokens
that the cluster does not know are checked a few at a time (``doors.http.attempts``). No log contains a token.
See explanation/security.md#joining-by-invitation.
"""

import logging
from typing import TypeVar

from gantry import errors, security
from gantry.doors.http import attempts
from gantry.lib_files import member as member_file
from gantry.lib_files import ssconf as ssconf_file
from gantry.rpc import calls, invitations, luxi
from gantry.runtime import interface, limits, paths, repeated_logs

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_SECONDS = 20.0
"""How long a machine waits for news of its job, before it asks again."""

TOKENS = "tokens that admit nobody"


class Relay:
    """The requests of machines, for the master daemon."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths) -> None:
        self._runtime = runtime
        self._folders = folders
        self._attempts = attempts.Attempts(runtime.clock)
        self._refused = repeated_logs.RepeatedLog(logger)

    async def prove(self, call: calls.ProveInvitation, peer: str) -> calls.Proven:
        """Return the master daemon's proof, or where the master is."""
        if elsewhere := self._elsewhere():
            return calls.Proven(master=elsewhere)
        answer = await self._known(call.invitation, call.nonce, peer)
        return calls.Proven(proof=answer.proof)

    async def use(self, call: calls.UseInvitation, peer: str) -> calls.JoinProgress:
        """Pass secret and join token to the master daemon; return the job that adds the machine, and its progress."""
        if elsewhere := self._elsewhere():
            raise errors.WrongStateError(f"the master is now at {elsewhere[0]}", hint="repeat the command")
        invitation = security.invitation.id_of(security.invitation.hash_of(call.secret))
        # The invitation is used up when its job has ended, and the machine still asks how.
        await self._known(invitation, "", peer, may_be_closed=bool(call.job))
        address = call.address or _address(peer)
        arguments = call.secret, call.join_token, call.node, address, call.job, call.serial
        wait = WAIT_SECONDS if call.job else 0.0
        progress = await self._ask(invitations.Progress, "UseInvitation", *arguments, wait)
        if progress.refusal and not progress.job:
            raise errors.from_luxi(*progress.refusal)
        if not call.job:
            logger.info("the machine at %s joins with an invitation: job %d", address, progress.job)
        return calls.JoinProgress(job=progress.job, status=progress.status, log=progress.log, error=progress.refusal)

    async def _ask(self, kind: type[T], method: str, *arguments: object) -> T:
        """Call the master daemon of this machine; raises its error, RemoteError if it does not run."""
        master = luxi.Client(self._runtime.network, self._folders.luxi_socket, remote=True)
        try:
            return await master.call(kind, method, *arguments)
        finally:
            await master.close()

    async def _known(self, invitation: str, nonce: str, peer: str, *, may_be_closed: bool = False) -> invitations.Proof:
        """Return the answer about an invitation that admits a machine; raises its refusal if it does not."""
        answers: list[invitations.Proof] = []

        async def ask() -> invitations.Proof:
            answer = await self._ask(invitations.Proof, "ProveInvitation", invitation, nonce, self._own_key())
            answers.append(answer)
            return answer

        def refusal_in(answer: invitations.Proof) -> errors.GantryError | None:
            refusal = errors.from_luxi(*answer.refusal) if answer.refusal else None
            return None if may_be_closed and not isinstance(refusal, errors.NotFoundError) else refusal

        async def admits() -> bool:
            try:
                return refusal_in(await ask()) is None
            except errors.GantryError:
                return True  # the token is not at fault; the next question reports the error

        is_admitted = await self._attempts.check(("", limits.peer_of(peer)), f"{invitation} {nonce}".encode(), admits)
        if is_admitted is None:
            raise errors.BusyError("too many attempts with unknown tokens come from this address", hint="try again")
        answer = answers[0] if answers else await ask()
        if error := refusal_in(answer):
            self._refused.write(logging.WARNING, TOKENS, "the machine at %s may not join: %.500s", peer, error.message)
            raise error
        return answer

    def _elsewhere(self) -> tuple[str, int] | None:
        """Return address and port of the master's node; None if it is this one."""
        member = member_file.decode(self._runtime.disk.read(member_file.path(self._folders.certificates)))
        master = self._ssconf("master_node").strip()
        if not master or master == member.node:
            return None
        ports = dict(line.rsplit(" ", 1) for line in self._ssconf("node_ports").splitlines())
        return self._ssconf("master_ip").strip(), int(ports.get(master, "1811"))

    def _ssconf(self, key: str) -> str:
        path = ssconf_file.path(self._folders.ssconf, key)
        return self._runtime.disk.read(path).decode() if self._runtime.disk.exists(path) else ""

    def _own_key(self) -> str:
        """Return the digest of the key that this node presents."""
        return security.key_of(security.der_of(self._runtime.disk.read(f"{self._folders.certificates}/node.pem")))


def _address(peer: str) -> str:
    """Return the address of a client, in the form of its own family; empty if it has none."""
    try:
        return limits.plain(peer)
    except ValueError:
        return ""
