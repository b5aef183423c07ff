"""IP claims: observed Kubernetes objects in, actions out (contracts/ippool-claims.md#allocation).

    objects ---> cache ---> reconcile_claim, reconcile_pool ---> actions ---> controllers ---> API server
                   ^                                                                              |
                   +------------------------------- answers --------------------------------------+

All modules here are pure: no I/O, no clock, no randomness. Each decision is the next single step; the answer updates
the cache, and the next decision follows from the cache. Recovery after a crash is therefore the normal path.
"""
