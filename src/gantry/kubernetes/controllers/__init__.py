"""Controllers of IPPools and IP claims for any Kubernetes API server.

    kubeconfig --> client --> reflectors --> cache --> work queues --> apply --> client
                     |                                     ^
                  election ------------ only the leader works

The decisions are those of the claims package; here is the I/O: list and watch, retries, rate limits, leader election.
``daemons.kube`` wires it.
"""
