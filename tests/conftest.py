"""What holds for every test: the signals it starts with, and how long hypothesis looks.

Hypothesis takes the same few examples every time, or as many new ones as there is time for.

Before a change to the resolver, a parser or the quoting:
HYPOTHESIS_PROFILE=thorough pytest --timeout=0 tests/unit/compat
"""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# a loaded machine is slow without anything being wrong
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=50, derandomize=True, **_PATIENT)
settings.register_profile("thorough", max_examples=2000, print_blob=True, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# `nohup` and a shell's `&` start programs with these ignored, and children inherit that: the tests of interrupts
# would wait for signals that never arrive
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
