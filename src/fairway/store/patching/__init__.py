"""Patch algorithms: JSON patch, merge patch, strategic merge, server-side apply. Pure.

    jsonpatch, merge, strategic     a patch in one of three notations, and the object after it
    managed                         who owns which field after a plain write
    apply                           server-side apply: the object and the owners after a declared configuration
    fieldsets                       sets of field paths, which ownership is made of
    comparing, merging, pruning     values seen as fields, and fields put into values and taken out
    conflicts                       the refusal when others own what would change

What must not be here: defaults, validation, revisions, and anything that reads a clock. Callers hand over objects in
the version of the request and the time, and get new objects back that share parts with the old ones.
"""
