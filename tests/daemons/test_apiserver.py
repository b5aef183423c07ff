import argparse
import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from tests import ports
from tests.cluster import lab

from gantry import errors, option_parser
from gantry.daemons import apiserver
from gantry.runtime import real

TIMEOUT_SECONDS = 60


def _options(folder: Path, *arguments: str) -> argparse.Namespace:
    parser = option_parser.Parser()
    apiserver.add(parser.add_subparsers())
    return parser.parse_args(["serve", "--data", str(folder), "--port", str(ports.free()), *arguments])


@asynccontextmanager
async def _serving(options: argparse.Namespace) -> AsyncIterator[dict[str, dict[str, str]]]:
    """Run the server, and yield cluster and user of its kubeconfig."""
    stop, disk, path = asyncio.Event(), real.RealRuntime().disk, f"{options.data}/kubeconfig"
    Path(path).unlink(missing_ok=True)  # noqa: ASYNC240
    running = asyncio.create_task(apiserver.serve(real.RealRuntime(), options, stop=stop))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (lab.listens(options.port) and disk.exists(path)):
                assert not running.done(), running.result()
                await asyncio.sleep(0.02)
        content = yaml.safe_load(disk.read(path))
        yield {"cluster": content["clusters"][0]["cluster"], "user": content["users"][0]["user"]}
    finally:
        stop.set()
        await running


async def _status(url: str, token: str, tls: ssl.SSLContext | bool) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api", headers=headers, ssl=tls) as answer:
        return answer.status


async def test_who_has_the_kubeconfig_is_let_in_and_sees_the_right_certificate(tmp_path: Path) -> None:
    async with _serving(_options(tmp_path)) as kubeconfig:
        url = kubeconfig["cluster"]["server"]
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        assert await _status(url, kubeconfig["user"]["token"], trusting) == 200
        assert await _status(url, "", trusting) == 401
        assert await _status(url, "wrong", trusting) == 401
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await _status(url, kubeconfig["user"]["token"], True)
    disk = real.RealRuntime().disk
    secret = [name for name in disk.names(str(tmp_path)) if name != "lock"]
    assert all(disk.status(f"{tmp_path}/{name}").mode & 0o077 == 0 for name in secret)


async def test_tokens_and_authority_stay_over_a_restart_and_more_may_be_added(tmp_path: Path) -> None:
    async with _serving(_options(tmp_path)) as before:
        pass
    with (tmp_path / "tokens").open("a") as tokens:
        tokens.write("abc,anna\n\n")
    async with _serving(_options(tmp_path)) as after:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        assert before["user"] == after["user"]
        assert before["cluster"]["certificate-authority-data"] == after["cluster"]["certificate-authority-data"]
        assert await _status(after["cluster"]["server"], "abc", trusting) == 200


async def test_tokens_are_not_sent_in_plain_to_other_machines(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidError, match="would send tokens unencrypted"):
        async with _serving(_options(tmp_path, "--no-ssl", "--bind", "0.0.0.0")):
            pass
    with pytest.raises(errors.InvalidError, match="is not an IP address"):
        async with _serving(_options(tmp_path, "--bind", "here")):
            pass
    async with _serving(_options(tmp_path, "--no-ssl")) as kubeconfig:
        assert await _status(kubeconfig["cluster"]["server"], kubeconfig["user"]["token"], True) == 200


async def test_a_tokens_file_without_a_user_stops_the_server(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("abc\n")
    with pytest.raises(errors.ConfigurationError, match=r"line 1 of .*tokens"):
        async with _serving(_options(tmp_path)):
            pass
