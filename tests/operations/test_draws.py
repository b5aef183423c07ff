from gantry.operations import draws


def test_draws_are_repeated_in_order_and_then_new() -> None:
    numbers = iter(range(100))
    source = draws.Inputs(now=1.0, uuid=lambda: f"u{next(numbers)}", below=lambda _: next(numbers))
    recorder = draws.Recorder(source)
    drawn = [recorder.inputs.uuid(), recorder.inputs.below(10), recorder.inputs.uuid()]
    again = recorder.drawn().replay(source)
    assert [again.uuid(), again.below(10), again.uuid()] == drawn
    assert again.uuid() not in drawn
    assert again.below(10) not in drawn


def test_a_number_is_drawn_again_below_its_own_limit_only() -> None:
    numbers = iter(range(100))
    source = draws.Inputs(now=1.0, uuid=str, below=lambda _: next(numbers))
    recorder = draws.Recorder(source)
    drawn = [recorder.inputs.below(limit) for limit in (10, 10, 1000)]
    again = recorder.drawn().replay(source)
    assert [again.below(10), again.below(1000)] == [drawn[0], drawn[2]]
    assert again.below(1000) not in drawn
    assert again.below(10) == drawn[1]
