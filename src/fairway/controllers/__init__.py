"""Controllers: each watches some objects and brings others in line with them. One folder a controller.

A controller joins decisions (`admission`, `jobs`) with effects (`client`): it is wiring and ordered steps, and decides
little by itself. It sees the world through a `client.cluster.Cluster` only, never the store or HTTP, so that the same
code runs on one machine, on a cluster and in tests on virtual time. It is restarted at will: all it must
remember is in the objects.
"""
