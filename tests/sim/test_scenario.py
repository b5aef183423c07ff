"""Scenarios from a few seeds: no promise is broken, and a seed gives the same story in every run.

``make simulate`` runs 10,000 seeds, ``make simulate-coverage`` the first 150 of them; these here are others.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantry.sim import outcome, program, scenario

SEEDS = [150, 5150, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1150, 10_000, 1000) if seed != 5150)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    result = scenario.run(seed)
    assert not result.broken, result.story


def test_administrators_replace_a_master_that_ends_after_all_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that learns only then that it was replaced, by a machine that lost its power and has no master."""
    settle, ended = outcome.Outcome.settle, list[str]()

    async def settle_and_end(self: outcome.Outcome) -> None:
        await settle(self)
        if not ended:
            ended.extend(self._lab.masters())
            for name in ended:
                await self._lab.stop_master(name)

    monkeypatch.setattr(outcome.Outcome, "settle", settle_and_end)
    # An administrator starts the same master again in every second seed.
    for seed in range(10):
        ended.clear()
        result = scenario.run(seed)
        assert not result.broken, result.story
        assert len(ended) == 1
        if "shall be the master" in result.story.rpartition("all faults end")[2]:
            return
    pytest.fail("no administrator has chosen another master")


def test_an_unexpected_error_makes_its_seed_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settle(self: outcome.Outcome) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(outcome.Outcome, "settle", settle)
    result = scenario.run(0)
    assert result.broken == scenario.UNBROKEN
    assert "KeyError('lost') in " in result.story
    assert "seed 0: 3 machines" in result.story


@pytest.mark.slow
def test_scenarios_do_something() -> None:
    results = [scenario.run(seed) for seed in range(5)]
    assert sum(result.jobs for result in results) > 50
    stories = "".join(result.story for result in results)
    for word in ("create vm", "remove vm", "add network", "node node", "fault:", "shall be the master", "success"):
        assert word in stories


@pytest.mark.parametrize("seed", [3, pytest.param(7, marks=pytest.mark.slow)])
def test_a_seed_tells_the_same_story_again(seed: int) -> None:
    assert scenario.run(seed).story == scenario.run(seed).story


@pytest.mark.slow
def test_a_seed_tells_the_same_story_in_another_process() -> None:
    command = [sys.executable, "-m", "gantry.sim.program", "--seed", "11"]
    stories = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, check=True, timeout=120
        ).stdout
        for _ in range(2)
    }
    assert len(stories) == 1


def test_the_program_names_the_seeds_that_broke_a_promise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int, *, schedule: str) -> scenario.Result:
        return scenario.Result(
            seed,
            "a promise" if seed == 5 else "",
            f"the story of {seed}, with {schedule or 'its own'} schedule\n",
            1,
            1.0,
        )

    monkeypatch.setattr(scenario, "run", run)
    assert program.main(["--seeds", "0-7", "--processes", "2", "--every", "4"]) == 1
    output = capsys.readouterr().out
    assert "seed 5: a promise" in output
    assert "1 of 8 seeds broke a promise: 5;" in output
    assert program.main(["--seeds", "0-4", "--processes", "1"]) == 0
    assert program.main(["--seed", "5"]) == 1
    assert "the story of 5, with its own schedule" in capsys.readouterr().out


def test_the_program_plays_a_schedule_in_each_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int, *, schedule: str) -> scenario.Result:
        return scenario.Result(seed, f"a promise of {schedule}", f"the story of {schedule}\n", 1, 1.0)

    monkeypatch.setattr(scenario, "run", run)
    assert program.main(["--seeds", "0-1", "--processes", "1", "--schedule", "sleeping-node"]) == 1
    output = capsys.readouterr().out
    assert "seed 1: a promise of sleeping-node" in output
    assert "--seed --schedule sleeping-node shows the story" in output
    assert program.main(["--seed", "5", "--schedule", "sleeping-node"]) == 1
    assert "the story of sleeping-node" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "9-3"],
        ["--seeds", "many"],
        [],
        ["--seed", "1", "--seeds", "1-2"],
        ["--seed", "1", "--schedule", "nothing"],
    ],
)
def test_the_program_refuses_what_it_does_not_understand(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(words)


def test_a_story_holds_nothing_from_outside_of_the_world() -> None:
    assert str(Path.home()) not in scenario.run(1).story
