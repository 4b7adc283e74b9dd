"""What all tests need."""

import signal

# A shell that starts pytest in its background ignores SIGINT, and so would the tests and every process of theirs.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
