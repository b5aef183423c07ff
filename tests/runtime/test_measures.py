"""What is counted and timed."""

import asyncio
import contextlib

import pytest

from gantry.runtime import measures
from gantry.runtime.measures import Kind, Measure
from gantry.runtime.simulated import World

CALLS = Measure("calls", Kind.COUNTER, ("kind",), "Calls.")
TIMES = Measure("times", Kind.DURATION, (), "Times.")
PARTS = Measure("parts", Kind.DURATION, ("part",), "Parts.")


def test_values_of_the_same_labels_add_up() -> None:
    counts = measures.Measures()
    counts.count(CALLS, "b")
    counts.count(CALLS, "a", amount=2.5)
    counts.count(CALLS, "a")
    (family,) = counts.families()
    assert [(sample.labels, sample.value) for sample in family.samples] == [(["a"], 3.5), (["b"], 1.0)]


@pytest.mark.parametrize(
    ("seconds", "position"),
    [(0.0, 0), (0.001, 0), (0.0011, 1), (60.0, len(measures.BOUNDS) - 1), (60.1, len(measures.BOUNDS))],
)
def test_a_duration_counts_in_the_class_whose_bound_it_does_not_exceed(seconds: float, position: int) -> None:
    counts = measures.Measures()
    counts.took(TIMES, seconds)
    (family,) = counts.families()
    (sample,) = family.samples
    assert sample.classes.index(1) == position
    assert sum(sample.classes) == 1
    assert len(sample.classes) == len(family.bounds) + 1
    assert sample.value == seconds


async def test_a_block_that_fails_is_timed_too() -> None:
    counts = measures.Measures()
    with contextlib.suppress(ZeroDivisionError), counts.timed(TIMES):
        raise ZeroDivisionError
    (family,) = counts.families()
    (sample,) = family.samples
    assert sum(sample.classes) == 1


def test_a_block_takes_as_long_as_the_time_of_the_event_loop_says() -> None:
    counts = measures.Measures()

    async def work() -> None:
        await asyncio.sleep(7)
        with counts.timed(PARTS, "disk"):
            await asyncio.sleep(3)

    with World(seed=1) as world:
        world.run(work())
    (family,) = counts.families()
    (sample,) = family.samples
    assert sample.labels == ["disk"]
    assert sample.value == pytest.approx(3)


def test_measures_are_in_the_order_of_their_names_before_those_of_the_sources() -> None:
    counts, moment = measures.Measures(), measures.Family("a", Kind.GAUGE, [], "Of the moment.", [])
    counts.add_source(lambda: [moment])
    assert counts.families() == [moment]
    counts.took(TIMES, 2.0)
    counts.count(CALLS, "a")
    assert counts.families() == [
        measures.Family("calls", Kind.COUNTER, ["kind"], "Calls.", [measures.Sample(["a"], 1.0)]),
        measures.Family(
            "times", Kind.DURATION, [], "Times.", [measures.Sample([], 2.0, [0] * 10 + [1] + [0] * 5)],
            list(measures.BOUNDS),
        ),
        moment,
    ]  # fmt: skip
