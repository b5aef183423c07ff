"""Chores: what an administrator does in several steps, about objects of its own, beside the random jobs of clients.

Random draws reach these operations too seldom, because an operation needs what several others have prepared. A module
for each chore, with a coroutine ``do`` that gets the ``stage`` of schedules; ``table`` lists them and draws some for a
run. Faults continue meanwhile. What a chore knows is checked at the end of the run, as what other clients know.
"""
