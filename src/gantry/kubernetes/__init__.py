"""Kubernetes: the resources of Metal3 as an API server and its controllers; reaches a cluster by LUXI alone."""
