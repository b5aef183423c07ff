"""The hypervisors ``xen-pvm`` and ``xen-hvm``: domains of Xen, controlled by Xen's own tool ``xl``.

``driver`` is the hypervisor, ``machine`` writes xl's configuration of a domain, ``domains`` runs xl and parses its
output, ``records`` keeps what Xen does not, ``migration`` moves domains to other nodes.
"""
