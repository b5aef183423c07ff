"""The only door to clock, randomness, disk, network and processes (explanation/architecture.md#the-seam).

``interface`` says what the floors above may ask for, ``real`` answers with asyncio and the standard library,
``simulated`` with a virtual clock, a disk that tears and loses, a network that delays and drops, all from one seed.
"""
