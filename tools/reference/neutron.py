"""The page of the Neutron API, from its attribute tables."""

from gantry.doors.neutron import attributes, discovery, resources
from tools.reference import page

ABOUT = """
The resources of the Neutron API; [how to start and use it](../how-to/neutron.md). GET on the path of a
collection lists it and POST adds an object; GET, PUT and DELETE on that path with an id show, change and remove one
object. `/v2.0/network-segment-ranges` is the same as with underscores, and either path may end in `.json`. A POST of a
list under the plural name makes all of its objects or none.

The path of an object with `/tags` after it leads to its tags: GET and PUT all of them, POST more, DELETE all. With the
name of a tag after that, GET, PUT and DELETE that tag. `/v2.0/network-ip-availabilities` counts addresses, for
administrators. `/`, `/v2.0/`, `/v2.0/extensions` and `/v2.0/extensions/ALIAS` list versions and extensions.

In the tables, *set* says which requests may contain an attribute; `*` marks those that must. Only administrators may
set and see the attributes marked *admin*. Lists can be filtered by attributes marked *filter* and by `tags`,
`tags-any`, `not-tags` and `not-tags-any`; sorted by attributes marked *sort*, with one or more pairs of `sort_key`
and `sort_dir`; divided into pages with `limit`, `marker` and `page_reverse`; and reduced to some attributes with
`fields`. Any other filter is refused.

Ports are found by `fixed_ips` with `ip_address=ADDRESS`, `subnet_id=UUID` or `ip_address_substr=TEXT`. An address is
looked up in an index. A part of an address is searched for among all addresses, 0.06 seconds of the master's processor
for each text and 100,000 ports, so a query can have at most ten of these texts.

Refusals are `{"NeutronError": {"type", "message", "detail"}}`.

An OpenAPI 3.1 description of this API, for clients and tests that are generated from it, is
{download}`in this documentation <openapi/neutron.json>`.
"""


def render() -> str:
    """Return the page."""
    lines: list[str] = []
    for resource in resources.ALL:
        who = "For administrators. " if resource.for_admins else ""
        lines += [f"## {resource.collection}", "", f"{who}`/v2.0/{resource.collection}`", ""]
        rows = (
            (page.code(attribute.name), _methods(attribute), _marks(attribute), attribute.text)
            for attribute in resource.table.values()
        )
        lines += page.table(("attribute", "set", "", ""), rows)
    known = discovery.extensions(ranges=True)["extensions"]
    assert isinstance(known, list)
    extensions = ((page.code(each["alias"]), each["description"]) for each in known)
    return page.render("Neutron API", ABOUT, [*lines, "## Extensions", "", *page.table(("alias", ""), extensions)])


def _methods(attribute: attributes.Attribute) -> str:
    post = ("POST*" if attribute.default is attributes.REQUIRED else "POST") if attribute.post else ""
    return ", ".join(filter(None, (post, "PUT" if attribute.put else "")))


def _marks(attribute: attributes.Attribute) -> str:
    marks = {
        "filter": attribute.filter,
        "sort": attribute.sort,
        "admin": attribute.admin,
        "not shown": not attribute.listed,
    }
    return ", ".join(name for name, marked in marks.items() if marked)
