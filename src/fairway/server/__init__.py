"""The Kubernetes REST API over the store."""
