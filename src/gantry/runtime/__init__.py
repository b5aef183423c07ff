"""The only access to clock, randomness, disk, network and processes (explanation/architecture.md#the-seam).

``interface`` declares what the layers above may use. ``real`` implements it with asyncio and the standard library,
``simulated`` with a virtual clock, a disk that tears and loses writes, and a network that delays and drops messages,
all from one seed.
"""
