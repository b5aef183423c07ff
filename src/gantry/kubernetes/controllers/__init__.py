"""The Kubernetes door: controllers of IPPools and claims on any API server, and in ``server`` an API server of our own.

    access --> client --> reflectors --> index (kubernetes.claims) --> queues --> carrier --> client
                 |                                                      ^
              election ---------------- who leads works ----------------+

What is decided is ``kubernetes.claims``'s; here is what it takes to hear of objects and to carry decisions out: watches
that end, answers that are lost, a server that asks for patience, two controllers of which one works. Who wires it is
``daemons.kube``.
"""
