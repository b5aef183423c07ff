"""Mutation testing: small faults are put into copies of the product, and the unit tests have to notice them.

``mutations`` lists every fault that can be made in a module, ``drawing`` draws some of them by a seed, ``tracing`` is
the pytest plugin that records which test executes which line, ``traces`` keeps that record, ``runs`` runs the tests
of one mutant in a copy of the tree, ``exceptions`` reads the mutants that no test can tell from the product, and
``report`` counts. ``python -m tools.mutants`` puts them together; the page ``docs/contributing/mutants.md`` says how
to read the result.
"""
