"""What the objects are: quantities, kinds, manifests to typed values and back, defaults, rules and version conversion.

Everything here is a value or a pure function over values. Nothing here decides who runs, knows that other objects exist
(a queue that names a missing flavor is valid), reads a clock or does I/O.
"""
