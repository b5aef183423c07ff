"""The custom resource definitions, whole, against ``deploy/kubernetes/crd``, where a kustomize base takes them from.

``GOLDEN=1 pytest tests/golden`` (``make golden``) writes the files anew.
"""

import os
from pathlib import Path

import pytest
import yaml

from gantry.kubernetes.api import definitions, manifests

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "kubernetes" / "crd"

OURS = [one for one in definitions.DEFINITIONS if one.is_ours]


@pytest.mark.parametrize("definition", OURS, ids=lambda one: one.plural)
def test_the_manifest_in_the_base_is_that_of_the_definition(definition: definitions.Definition) -> None:
    path = FOLDER / f"{definition.plural}.yaml"
    text = yaml.safe_dump(manifests.crd(definition), sort_keys=False, width=1000)
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_base_has_no_other_definition() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(one.plural for one in OURS)
