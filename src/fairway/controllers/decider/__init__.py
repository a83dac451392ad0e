"""The decider where no engine runs in this process: `StoredDecider` reads what the objects say.

The port itself is `fairway.admission.port`; the engine's own side of it is `fairway.controllers.admission`.
"""

from fairway.controllers.decider.stored import StoredDecider

__all__ = ["StoredDecider"]
