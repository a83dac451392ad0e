"""The shapes of manifests: which fields there are, what they hold, how lists and maps merge."""
