"""The rules of Kueue 0.19.2 beyond its schema, on manifests: one function a kind that returns every error it finds.

A rule may compare fields of one object, or the object with what it was before, never with other objects: whether a
queue exists is not a question of validity. Rules behind feature gates that are off by default are not enforced.
"""
