"""Every kind that the API serves: types, schemas, defaults, rules, columns and conversion, one package a group.

Everything here is a value or a pure function over values. `registry` lists the kinds; `machinery` is what they share.
"""
