"""Fairway on a cluster: names, permissions and manifests of an installation. Pure: nothing here talks to a cluster."""
