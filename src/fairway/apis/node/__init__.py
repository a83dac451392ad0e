"""The node group: RuntimeClass."""
