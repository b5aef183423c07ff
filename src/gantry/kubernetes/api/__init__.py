"""Kubernetes objects: the kinds (``ipam``, ``capi``, ``data``), and what a server has to know (``definitions``)."""
