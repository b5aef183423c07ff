"""The reference pages that follow from the code: ``make golden`` writes them into docs/reference.

    commands/       a page for each program, from its table of commands or its argument parser
    opcodes.md      from the structs of the opcodes
    fields.md       from the registry of query fields
    parameters.md   from the parameter classes
    errors.md       from the exception tree
    exit-codes.md   from the exit codes of the commands
    remote-api.md   from the routes of the remote API
    neutron.md      from the attribute tables of the Neutron API
    configuration.md  from the argument parsers of the daemons
    kubernetes.md   from the definitions of the Kubernetes resources
    packages.md     from debian/
    openapi/        OpenAPI descriptions of the remote API and of the Neutron API

``PAGES`` maps each path below ``FOLDER`` to the function that returns its text. ``missing`` yields everything in the
code that has no text. ``python -m tools.reference`` writes the pages without the tests.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from tools.reference import (
    commands,
    configuration,
    errors,
    exit_codes,
    fields,
    kubernetes,
    neutron,
    neutron_openapi,
    opcodes,
    packages,
    parameters,
    remote,
)

FOLDER = Path(__file__).parents[2] / "docs/reference"

PAGES: dict[str, Callable[[], str]] = {
    **commands.pages(),
    "opcodes.md": opcodes.render,
    "fields.md": fields.render,
    "parameters.md": parameters.render,
    "errors.md": errors.render,
    "exit-codes.md": exit_codes.render,
    "remote-api.md": remote.render,
    "neutron.md": neutron.render,
    "kubernetes.md": kubernetes.render,
    "packages.md": packages.render,
    "configuration.md": configuration.render,
    "openapi/remote-api.json": remote.openapi,
    "openapi/neutron.json": neutron_openapi.encoded,
}


def missing() -> Iterator[str]:
    """Yield the name of each command, option, structure, field and parameter without a text."""
    for module in (commands, opcodes, fields, parameters):
        yield from module.missing()
