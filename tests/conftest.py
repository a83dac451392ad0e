"""What holds for all tests: hypothesis draws the same examples every time, so that a red build is about the change.

`make explore` draws new and more ones; what it finds becomes an example of its test.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
