"""The records of the core kinds."""

from typing import Final

from fairway.apis.core.accounts import SERVICE_ACCOUNT
from fairway.apis.core.configuration import CONFIG_MAP, SECRET
from fairway.apis.core.events import EVENT
from fairway.apis.core.limitranges import LIMIT_RANGE
from fairway.apis.core.namespaces import NAMESPACE
from fairway.apis.core.nodes import NODE
from fairway.apis.core.pods import POD
from fairway.apis.core.templates import POD_TEMPLATE
from fairway.apis.machinery.kind import Kind

KINDS: Final[tuple[Kind, ...]] = (
    CONFIG_MAP,
    EVENT,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    POD_TEMPLATE,
    SECRET,
    SERVICE_ACCOUNT,
)
