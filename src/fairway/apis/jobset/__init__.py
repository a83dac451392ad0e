"""`jobset.x-k8s.io`: JobSet 0.12."""
