"""How hard to try: little and always the same in the test suite, much and each time anew by hand.

FAIRWAY_FUZZ=20 pytest tests/fuzz      # twenty times as many examples, drawn at random
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

TIMES: Final = int(os.environ.get("FAIRWAY_FUZZ", "1"))
_UNCONCERNED: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def examples(count: int) -> settings:
    """Settings for a test that is worth this many examples."""
    return settings(
        max_examples=count * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=_UNCONCERNED,
    )
