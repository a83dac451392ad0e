"""`apiextensions.k8s.io`: CustomResourceDefinitions, and the kinds that they define."""
