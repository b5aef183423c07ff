"""Claims on addresses: observed Kubernetes objects in, actions out (claims seed; contract: kubernetes 1.3 to 1.8).

    objects ---> index ---> requests (claims), pools ---> actions ---> whoever talks to the API server
                   ^                                         |
                   +------------- its answers ---------------+

Nothing here talks to anybody, reads a clock or draws a random number. Each decision is the next single step; its answer
changes the index, and the next decision follows from that. So what happens after a crash is what happens always.
"""
