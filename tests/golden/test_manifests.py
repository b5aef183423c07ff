"""The custom resource definitions against the files in ``deploy/kubernetes/crd``, which a kustomize base includes.

``GOLDEN=1 pytest tests/golden`` (``make golden``) rewrites the files.
"""

import os
from pathlib import Path

import pytest
import yaml

from gantry.kubernetes.api import definitions, manifests

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "kubernetes" / "crd"

OURS = [each for each in definitions.DEFINITIONS if each.is_ours]


@pytest.mark.parametrize("definition", OURS, ids=lambda each: each.plural)
def test_the_manifest_in_the_base_is_that_of_the_definition(definition: definitions.Definition) -> None:
    path = FOLDER / f"{definition.plural}.yaml"
    text = yaml.safe_dump(manifests.crd(definition), sort_keys=False, width=1000)
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_base_has_no_other_definition() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(each.plural for each in OURS)
