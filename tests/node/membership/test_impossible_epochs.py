"""Frames with an epoch that no master can have: neither a candidate nor a master takes them."""

from collections.abc import Iterator

import msgspec
import pytest
from tests.node.membership.pairs import Pair, append
from tests.state import build

from gantry import errors
from gantry.lib_files import frame
from gantry.node.membership import fence, ssconf
from gantry.rpc import calls
from gantry.runtime import simulated
from gantry.state.store import transaction

WHERE = build.WHERE


@pytest.fixture
def pair() -> Iterator[Pair]:
    with simulated.World(seed=1) as world:
        yield Pair(world)


@pytest.mark.parametrize("epoch", [b"9" * 4002, b"-1", b"1.5", b'"2"', b"null"])
def test_a_frame_with_an_epoch_that_is_no_epoch_is_refused_by_candidate_and_master(pair: Pair, epoch: bytes) -> None:
    pair.replicated(1)
    end = pair.at_node(pair.copy.status())
    record = b'{"serial":3,"time":1.0,"epoch":%s,"cause":{},"changes":[]}' % epoch
    line = frame.pack(end.digest, [record])
    with pytest.raises(errors.ProtocolError, match="the frame is from another version"):
        pair.at_node(pair.copy.append(append(end.digest, line=line)))
    section = build.sections(pair.master)[-1]
    pair.at_master(pair.master.disk.write(section, pair.master.disk.read(section) + line))
    with pytest.raises(errors.ConfigurationError, match="not a record that this version can read"):
        pair.at_master(transaction.Store.open(pair.master, WHERE))


def test_a_frame_of_an_epoch_far_above_those_of_the_node_is_refused(pair: Pair) -> None:
    """Else one false call would make the node refuse its master for ever."""
    pair.replicated(1)
    files = ssconf.Files(pair.node.disk, WHERE)
    pair.at_node(fence.Fence(pair.node, WHERE, files=files).admit(1))
    copy = pair.fresh()
    end = pair.at_node(copy.status())
    far = 2 + calls.EPOCH_STEP
    with pytest.raises(errors.ProtocolError, match=f"epoch {far} is too far above epoch 1"):
        pair.at_node(copy.append(append(end.digest, epoch=far, serial=3)))
    with pytest.raises(errors.ProtocolError, match=f"epoch {far} is too far above epoch 1"):
        pair.at_node(copy.renew_lease(calls.LeaseRenew(node="node9", epoch=far)))
    hidden = msgspec.structs.replace(append(end.digest, epoch=far, serial=3), epoch=1)
    with pytest.raises(errors.ProtocolError, match=f"it has epoch {far}, its call epoch 1"):
        pair.at_node(copy.append(hidden))
    assert pair.at_node(copy.status()) == end
