"""Kueue's group as 0.19.2 serves it: types, defaults, validation, conversion, records.

A kind is a frozen `msgspec.Struct`. Quota and admission are decided in `fairway.admission`, never here.
"""
