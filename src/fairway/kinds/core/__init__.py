"""The kinds of the core group, one module for each or for each pair; `KINDS` are their records.

What pods and jobs share (defaults and rules of pod specs, containers, volumes, placement) is here too. Nothing in this
package looks at other objects: whoever resolves references, assigns nodes or starts containers does it elsewhere.
"""

from typing import Final

from fairway.kinds.core.accounts import SERVICE_ACCOUNT
from fairway.kinds.core.configuration import CONFIG_MAP, SECRET
from fairway.kinds.core.events import EVENT
from fairway.kinds.core.namespaces import NAMESPACE
from fairway.kinds.core.nodes import NODE
from fairway.kinds.core.pods import POD
from fairway.kinds.core.templates import POD_TEMPLATE
from fairway.kinds.kind import Kind

KINDS: Final[tuple[Kind, ...]] = (
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    POD_TEMPLATE,
    SECRET,
    SERVICE_ACCOUNT,
)
