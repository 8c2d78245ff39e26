"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
