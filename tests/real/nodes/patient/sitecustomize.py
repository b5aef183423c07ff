"""Python imports this first in the master of a lab: its queries wait longer for nodes.

A query leaves out a node that has not answered within two seconds (``gantry.rpc.liveness``). A node that is emulated on
a busy machine is slower than that, though nothing is wrong with it, and these tests ask what nodes say of their disks.
"""

import dataclasses

from gantry.rpc import liveness

TIMEOUT_SECONDS = 30.0

liveness.READ_TIMEOUT_SECONDS = TIMEOUT_SECONDS
liveness.BRIEF = dataclasses.replace(liveness.BRIEF, timeout_seconds=TIMEOUT_SECONDS)
