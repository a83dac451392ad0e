"""The group `sparkoperator.k8s.io`."""
