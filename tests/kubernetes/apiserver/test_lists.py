import pytest
from tests.kubernetes.apiserver import api

from gantry.kubernetes.apiserver import read


async def _secrets(kube: api.Api, *names: str, **labels: str) -> None:
    for name in names:
        await kube.add(api.SECRETS, api.secret(name, labels=labels))


async def test_a_page_that_is_no_longer_known_is_expired(kube: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_PAGED_LISTS", 1)
    await _secrets(kube, *"abc")
    old = (await kube.get(f"{api.SECRETS}?limit=1")).at("metadata.continue")
    await kube.get(f"{api.SECRETS}?limit=1")
    assert (await kube.get(f"{api.SECRETS}?limit=1&continue={old}")).refusal[:2] == (410, "Expired")
    late = (await kube.get(f"{api.SECRETS}?limit=1")).at("metadata.continue")
    monkeypatch.setattr(read, "CONTINUE_SECONDS", -1.0)
    assert (await kube.get(f"{api.SECRETS}?limit=1&continue={late}")).status == 200
    assert (await kube.get(f"{api.SECRETS}?limit=1")).at("metadata.continue") != late
    assert (await kube.get(f"{api.SECRETS}?limit=1&continue={late}")).refusal[0] == 410
    assert (await kube.get(f"{api.SECRETS}?limit=1&continue=%C3%A4")).refusal[0] == 400
