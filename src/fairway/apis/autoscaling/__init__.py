"""The cluster autoscaler's group: ProvisioningRequest."""
