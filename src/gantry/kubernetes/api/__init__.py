"""Kubernetes objects: the kinds (``ipam``, ``capi``, ``data``), and their resource definitions (``definitions``)."""
