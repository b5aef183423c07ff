"""What cloud-init, and Ironic's schema of Nova's network data, say of the network data on standard input.

Its argument is the folder that has cloud-init's package; the input has the network data under ``data``, and under
``macs`` the names of network cards by their MAC addresses. It prints JSON: ``config`` is what cloud-init makes of the
data, ``errors`` are the places that do not fit the schema.
"""

import importlib.util
import json
import sys
from pathlib import Path

import jsonschema

request = json.load(sys.stdin)
spec = importlib.util.find_spec("ironic")
assert spec
assert spec.submodule_search_locations
(folder,) = spec.submodule_search_locations
schema = json.loads((Path(folder) / "api/controllers/v1/network-data-schema.json").read_text())
problems = jsonschema.Draft7Validator(schema).iter_errors(request["data"])
errors = [f"{'.'.join(map(str, problem.absolute_path))}: {problem.message}" for problem in problems]

sys.path.append(sys.argv[1])
from cloudinit.sources.helpers import openstack  # noqa: E402

config = openstack.convert_net_json(request["data"], known_macs=request["macs"])
print(json.dumps({"config": config, "errors": errors}))
