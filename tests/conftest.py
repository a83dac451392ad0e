"""What holds for all tests: hypothesis draws the same examples every time, so that a red build is about the change.

`make explore` draws new and more ones; what it finds becomes an example of its test.
"""

import os
import signal

from hypothesis import settings

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever runs the tests in the background may have these ignored, and the commands that are started here with them.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
