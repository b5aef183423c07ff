"""What only the real runtime can show: TLS, other processes, zombies, permissions."""

import asyncio
import datetime
import errno
import fcntl
import ipaddress
import itertools
import os
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests import ports

import gantry
from gantry.runtime import bytestream, http_interface, limits
from gantry.runtime.real import RealRuntime, processes


@dataclass(frozen=True)
class Identity:
    """A certificate that signs itself, in files."""

    certificate: x509.Certificate
    path: str

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)


def make_identity(folder: Path, name: str) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Identity(certificate, str(path))


def server_context(own: Identity, trusted: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.path)
    context.load_verify_locations(trusted.path)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(own: Identity | None, trusted: Identity) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.path)
    if own is not None:
        context.load_cert_chain(own.path)
    return context


@pytest.fixture
def runtime() -> RealRuntime:
    return RealRuntime()


async def poll(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await RealRuntime().clock.sleep(0.01)


def imports() -> dict[str, str]:
    """The environment in which another Python finds the project."""
    return {**os.environ, "PYTHONPATH": str(Path(gantry.__file__).parents[1])}


async def test_mutual_tls_shows_the_peers_certificate_and_refuses_others(
    runtime: RealRuntime, tmp_path: Path, port: int
) -> None:
    seen: list[bytes | None] = []

    async def handler(request: http_interface.Request) -> http_interface.Response:
        seen.append(request.peer_certificate)
        return http_interface.Response(200, b"in")

    server_side, client_side, stranger = (make_identity(tmp_path, n) for n in ("server", "client", "stranger"))
    server = await runtime.network.serve_http(
        "127.0.0.1", port, handler, tls=server_context(server_side, client_side), body_limit=1000
    )
    contexts = {
        "good": client_context(client_side, server_side),
        "no certificate": client_context(None, server_side),
        "another's certificate": client_context(stranger, server_side),
        "server not trusted": client_context(client_side, stranger),
        "no TLS": None,
    }
    answers: dict[str, object] = {}
    for name, context in contexts.items():
        client = runtime.network.http_client(tls=context)
        try:
            answers[name] = (await client.post("127.0.0.1", port, "/", b"", timeout=60)).body
        except TimeoutError:
            answers[name] = "timeout"
        except OSError:
            answers[name] = "refused"
        await client.close()
    await server.close()
    assert answers == {name: b"in" if name == "good" else "refused" for name in contexts}
    assert seen == [client_side.der]


async def test_a_server_uses_another_context_from_the_next_connection_on(
    runtime: RealRuntime, tmp_path: Path, port: int
) -> None:
    async def handler(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, b"in")

    server_side, before, after = (make_identity(tmp_path, name) for name in ("server", "before", "after"))
    server = await runtime.network.serve_http(
        "127.0.0.1", port, handler, tls=server_context(server_side, before), body_limit=1000
    )
    clients = [runtime.network.http_client(tls=client_context(own, server_side)) for own in (before, before, after)]
    open_already, former, present = clients
    try:
        assert (await open_already.post("127.0.0.1", port, "/", b"", timeout=60)).body == b"in"
        server.renew_tls(server_context(server_side, after))
        with pytest.raises(OSError, match=r"SSL|reset|closed|disconnected"):
            await former.post("127.0.0.1", port, "/", b"", timeout=60)
        for each in (present, open_already):
            assert (await each.post("127.0.0.1", port, "/", b"", timeout=60)).body == b"in"
    finally:
        for each in clients:
            await each.close()
        await server.close()


async def time_out(runtime: RealRuntime, script: str, *, wrote: Path) -> None:
    """Run a script to a time-out by which it has written a file; a busy machine may not come so far in a second."""
    seconds = 1
    while not runtime.disk.exists(str(wrote)):
        assert seconds < 100, "the script does not begin"
        async with asyncio.timeout(seconds + 30):
            with pytest.raises(TimeoutError):
                await runtime.processes.run(["/bin/sh", "-c", script], timeout=seconds)
        seconds *= 3


async def test_program_at_its_timeout_is_killed_with_its_children(runtime: RealRuntime, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    await time_out(runtime, f"sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait", wrote=pids)
    child, parent = (int(pid) for pid in pids.read_text().split())
    await poll(lambda: not runtime.processes.alive(child))
    assert not runtime.disk.exists(f"/proc/{parent}")


async def test_timeout_is_kept_when_a_stray_child_holds_the_output_open(runtime: RealRuntime, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    stray = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600"
    await time_out(runtime, f"setsid sh -c '{stray}' & sleep 600", wrote=pid_file)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)


async def test_cancelled_run_leaves_no_process(runtime: RealRuntime, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600"
    task = asyncio.create_task(runtime.processes.run(["/bin/sh", "-c", script]))
    await poll(pid_file.exists)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not runtime.disk.exists(f"/proc/{pid_file.read_text().strip()}")


def stand_still_until(condition: Callable[[], bool]) -> None:
    """Keep the event loop from running on: the pipes of a program that it starts are not connected yet."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)


async def test_run_cancelled_while_the_program_starts_kills_its_children_too(
    runtime: RealRuntime, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"
    task = asyncio.create_task(runtime.processes.run(["/bin/sh", "-c", script]))
    for _ in range(2):
        await asyncio.sleep(0)
    stand_still_until(pids.exists)
    task.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([task])
    assert task.cancelled()
    child, parent = (int(pid) for pid in pids.read_text().split())
    await poll(lambda: not (runtime.processes.alive(child) or runtime.processes.alive(parent)))


async def test_program_killed_by_a_signal_has_a_negative_code(runtime: RealRuntime) -> None:
    assert (await runtime.processes.run(["/bin/sh", "-c", "kill -9 $$"])).code == -9


async def test_ended_program_leaves_no_zombie(runtime: RealRuntime, tmp_path: Path) -> None:
    pid = await runtime.processes.start(["/bin/true"], environment=None, log=str(tmp_path / "log"))
    await poll(lambda: not runtime.disk.exists(f"/proc/{pid}"))


def test_zombie_does_not_count_as_alive(runtime: RealRuntime) -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert os.path.exists(f"/proc/{child.pid}")
        assert not runtime.processes.alive(child.pid)


async def test_process_lives_until_its_last_thread_has_ended(runtime: RealRuntime) -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as child:  # noqa: ASYNC220
        await poll(lambda: b") Z " in runtime.disk.read(f"/proc/{child.pid}/stat"))
        assert runtime.processes.alive(child.pid)
        child.kill()
        await poll(lambda: not runtime.processes.alive(child.pid))


def test_started_program_outlives_its_starter(runtime: RealRuntime, tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        "from gantry.runtime.real import RealRuntime\n"
        "start = RealRuntime().processes.start\n"
        f"print(asyncio.run(start(['/bin/sleep', '600'], environment=None, log={str(tmp_path / 'log')!r})))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=imports())
    pid = int(ended.stdout)
    assert runtime.processes.command_line(pid) == ["/bin/sleep", "600"]
    assert runtime.processes.alive(pid)
    assert os.getsid(pid) == pid
    runtime.processes.signal(pid, signal.SIGKILL)


def test_lock_of_another_process_is_respected_until_it_is_killed(runtime: RealRuntime, tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = (
        "import sys, time\n"
        "from gantry.runtime.real import RealRuntime\n"
        f"held = RealRuntime().disk.lock({path!r})\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=imports()) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            runtime.disk.lock(path)
        assert int(runtime.disk.read(path)) == holder.pid
        holder.kill()
        holder.wait()
        runtime.disk.lock(path).release()


def test_a_lock_is_not_written_again_by_the_process_that_had_it_before(runtime: RealRuntime, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"%d1\n" % os.getpid())
    runtime.disk.lock(str(path)).release()
    assert path.read_bytes() == b"%d\n" % os.getpid()
    os.utime(path, (1, 1))
    runtime.disk.lock(str(path)).release()
    assert path.stat().st_mtime == 1


async def test_stale_socket_file_is_replaced(runtime: RealRuntime, tmp_path: Path) -> None:
    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        writer.write(b"new\n")

    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    server = await runtime.network.serve_unix(path, handler, mode=0o666, limit=100)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
    reader, writer = await runtime.network.connect_unix(path, limit=100)
    assert await reader.readuntil(b"\n") == b"new\n"
    writer.close()
    await server.close()


async def test_a_regular_file_at_the_path_of_a_socket_is_kept(runtime: RealRuntime, tmp_path: Path) -> None:
    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        raise AssertionError

    path = tmp_path / "sock"
    path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        await runtime.network.serve_unix(str(path), handler, mode=0o600, limit=100)
    assert path.read_text() == "precious"


async def test_passed_connection_carries_bytes_and_breaks_when_its_peer_reads_nothing(
    runtime: RealRuntime, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as door, socket.create_server(("127.0.0.1", 0)) as far:
        door.bind(str(tmp_path / "door"))
        door.listen()
        _, writer = await runtime.network.connect_unix(str(tmp_path / "door"), limit=1000)
        port = far.getsockname()[1]
        await runtime.network.pass_connection(writer, b"take it\n", host="127.0.0.1", port=port, timeout_seconds=1.0)
        inside, _ = door.accept()
        with inside:
            message, (descriptor, *_), *_ = socket.recv_fds(inside, 100, 1)
        writer.close()
        peer, _ = far.accept()
        with socket.socket(fileno=descriptor) as line, peer:
            assert message == b"take it\n"
            peer.sendall(b"hello")
            assert line.recv(100) == b"hello"
            with pytest.raises(BlockingIOError):
                line.recv(100)
            begun = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(flood, line)
            assert time.monotonic() - begun >= 1


def flood(line: socket.socket) -> None:
    """Send until that fails, for a minute at most."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    while True:
        line.sendall(b"x" * 100_000)


async def test_standard_input_may_be_a_connection(runtime: RealRuntime) -> None:
    inside, outside = socket.socketpair()
    with inside, outside:
        before = os.dup(0)
        try:
            os.dup2(inside.fileno(), 0)
            reader, writer = await runtime.network.stdin_connection(limit=100)
        finally:
            os.dup2(before, 0)
            os.close(before)
        outside.sendall(b"question\n")
        assert await reader.readuntil(b"\n") == b"question\n"
        writer.write(b"answer\n")
        await writer.drain()
        assert outside.recv(100) == b"answer\n"
        writer.close()


async def test_connection_that_fails_is_not_passed_on(runtime: RealRuntime, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen()
        _, writer = await runtime.network.connect_unix(str(tmp_path / "door"), limit=1000)
        with pytest.raises(ConnectionRefusedError):
            await runtime.network.pass_connection(
                writer, b"x\n", host="127.0.0.1", port=ports.free(), timeout_seconds=5.0
            )
        writer.close()
        inside, _ = door.accept()
        with inside:
            assert await asyncio.to_thread(inside.recv, 100) == b""


async def test_failed_write_leaves_the_old_file_and_no_other(runtime: RealRuntime, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        await runtime.disk.write(str(tmp_path / "folder"), b"data")
    assert runtime.disk.names(str(tmp_path)) == ["folder"]


@pytest.mark.promise("cluster-60")
@pytest.mark.parametrize("several", [False, True])
async def test_a_file_is_replaced_as_a_whole_and_never_partly(
    runtime: RealRuntime, tmp_path: Path, *, several: bool
) -> None:
    path = tmp_path / "job-1"
    path.write_bytes(b"the old content")
    with path.open("rb") as old:
        if several:
            assert await runtime.disk.write_all({str(path): b"new"}) == {}
        else:
            await runtime.disk.write(str(path), b"new", sync=False)
        assert old.read() == b"the old content"
    assert path.read_bytes() == b"new"
    assert runtime.disk.names(str(tmp_path)) == ["job-1"]


async def test_bare_names_are_in_the_working_directory(
    runtime: RealRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await runtime.disk.make_directory("folder")
    await runtime.disk.write("file", b"data")
    file = await runtime.disk.append_file("log")
    file.close()
    assert runtime.disk.names(str(tmp_path)) == ["file", "folder", "log"]


async def test_an_append_syncs_itself_and_the_first_append_all_earlier_data(
    runtime: RealRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"by a former process,")
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = await runtime.disk.append_file(str(path))
    await file.append(b" by us,")
    assert [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in synced] == [str(path)]
    await file.append(b" again")
    assert len(synced) == 1
    assert fcntl.fcntl(synced[0], fcntl.F_GETFL) & os.O_DSYNC
    file.close()
    assert path.read_bytes() == b"by a former process, by us, again"


async def test_a_sync_that_fails_raises_the_error_of_the_kernel(runtime: RealRuntime, tmp_path: Path) -> None:
    file_system = runtime.disk.file_system(str(tmp_path))
    file_system.close()
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        await file_system.sync()
    assert (raised.value.errno, raised.value.filename) == (errno.EBADF, str(tmp_path))


async def test_a_sparse_file_that_cannot_have_its_size_is_not_left_behind(runtime: RealRuntime, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        await runtime.disk.make_sparse(str(tmp_path / "disk0"), -1)
    assert runtime.disk.names(str(tmp_path)) == []


async def test_full_device_fails_an_append_with_no_space(runtime: RealRuntime) -> None:
    file = await runtime.disk.append_file("/dev/full")
    with pytest.raises(OSError, match="No space"):
        await file.append(b"data")
    file.close()


async def test_client_that_does_not_send_its_body_gets_408(runtime: RealRuntime) -> None:
    async def handler(request: http_interface.Request) -> http_interface.Response:
        return http_interface.Response(200, request.peer.encode(), headers={"X-More": "yes"})

    port, allowed = ports.free(), limits.HttpLimits(body_seconds=0.2)
    server = await runtime.network.serve_http("127.0.0.1", port, handler, tls=None, body_limit=1000, allowed=allowed)
    try:
        for size, status in ((5, b"408"), (0, b"200")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            async with asyncio.timeout(60):
                answer = await reader.read()
            assert answer.split()[1] == status
            writer.close()
        assert b"X-More: yes" in answer
        assert answer.endswith(b"127.0.0.1")
    finally:
        await server.close()


async def test_the_arguments_of_a_started_program_are_readable_at_once(
    runtime: RealRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_line = processes.Processes.command_line
    looks = itertools.count()

    def late(self: processes.Processes, pid: int) -> list[str]:
        return command_line(self, pid) if next(looks) > 2 else []

    monkeypatch.setattr(processes.Processes, "command_line", late)
    pid = await runtime.processes.start(["/bin/sleep", "600"], environment={}, log=str(tmp_path / "log"))
    assert runtime.processes.command_line(pid) == ["/bin/sleep", "600"]
    runtime.processes.signal(pid, signal.SIGKILL)
    pid = await runtime.processes.start(["/bin/true"], environment={}, log=str(tmp_path / "log"))
    await poll(lambda: not runtime.processes.alive(pid))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("user", "is_privileged", "name"), [(0, True, "root"), (65534, False, "nobody"), (54324, False, "#54324")]
)
async def test_the_kernel_tells_root_from_other_users(
    runtime: RealRuntime, tmp_path: Path, user: int, is_privileged: bool, name: str
) -> None:
    os.chmod(tmp_path, 0o755)
    seen: asyncio.Future[tuple[bool, str, tuple[str, ...]]] = asyncio.get_running_loop().create_future()

    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        network = runtime.network
        seen.set_result((network.is_privileged(writer), network.peer_user(writer), network.peer_groups(writer)))

    server = await runtime.network.serve_unix(str(tmp_path / "socket"), handler, mode=0o666, limit=100)
    become = f"os.setgroups([0, 54321]); os.setgid(0); os.setuid({user})"
    code = f"import os, socket; {become}; socket.socket(socket.AF_UNIX).connect('socket')"
    try:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)
        assert await asyncio.wait_for(seen, 60) == (is_privileged, name, ("root",))
    finally:
        await server.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can enter a namespace of time")
def test_the_time_that_a_machine_sleeps_counts() -> None:
    clock = "import time, gantry.runtime.real as real; print(real.Clock().monotonic() - time.monotonic())"
    # Where the machine has slept for a day, this clock alone is a day ahead.
    inside = ["unshare", "--time", "--boottime", "86400"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel has no namespaces of time, or does not let this process have one")
    command = [*inside, sys.executable, "-c", clock]
    ahead = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    assert float(ahead) - slept == pytest.approx(86400, abs=3600)


async def test_a_connection_for_another_program_breaks_when_its_peer_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with RealRuntime("node1").network.connect_tcp("127.0.0.1", port, 8.0) as connection:
            tcp = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT]
            # Four probes, of which the last is missed after the time; data that is not acknowledged has the same time.
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in tcp] == [2, 2, 4, 8000]
            with pytest.raises(BlockingIOError):
                connection.recv(1)
