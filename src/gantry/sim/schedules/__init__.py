"""Schedules: faults of several acts in a set order, which independent draws of faults hit too seldom.

A module for each, with a coroutine ``play`` that gets the ``stage``; ``table`` lists them and draws one for a run.
"""
