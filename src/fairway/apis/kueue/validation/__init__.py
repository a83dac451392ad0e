"""The rules of Kueue 0.19.2: which objects, and which changes to them, it accepts.

One module a kind, each a function that returns every error it finds; the limits that the schema states (`limits`) and
the rules that all kinds share (`metadata`, `names`, `tolerations`) stand beside them. A rule may compare fields of one
object, or the object with what it was before, never with other objects: whether a queue exists is not a question of
validity. Rules behind feature gates that are off by default are not enforced.
"""

from fairway.apis.kueue.validation.dispatch import validate, validate_update, wrong, wrong_update

__all__ = ["validate", "validate_update", "wrong", "wrong_update"]
