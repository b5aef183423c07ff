"""The file that says which node a machine is."""

import pytest

from gantry import errors
from gantry.lib_files import member

NODE = member.Member(cluster="one", node="node1", uuid="u1", address="192.0.2.1", masters=("u1=key",))


def test_what_is_written_is_read() -> None:
    assert member.decode(member.encode(NODE)) == NODE


def test_an_earlier_version_wrote_no_masters() -> None:
    content = b'{"cluster":"one","node":"node1","uuid":"u1","address":"192.0.2.1"}'
    assert member.decode(content).masters == ()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"node":"node1"}'])
def test_a_damaged_file_says_how_the_machine_becomes_the_node_again(content: bytes) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"is damaged: .*gnt-node add --readd"):
        member.decode(content)
