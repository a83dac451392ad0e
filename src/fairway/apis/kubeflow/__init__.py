"""`kubeflow.org`: kinds of the training operator 1.9."""
