"""The hypervisors ``xen-pvm`` and ``xen-hvm``: domains of Xen, commanded by its own tool ``xl``.

``driver`` is the hypervisor, ``machine`` writes xl's configuration of a domain, ``domains`` runs xl and reads what it
tells, ``records`` keeps what Xen does not, ``migration`` brings domains to other nodes.
"""
