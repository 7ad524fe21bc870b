"""How long hypothesis looks: the same few examples every time, or as many new ones as there is time for.

Before a change to the resolver, a parser or the quoting:
HYPOTHESIS_PROFILE=thorough pytest --timeout=0 tests/unit/compat
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# a loaded machine is slow without anything being wrong
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=50, derandomize=True, **_PATIENT)
settings.register_profile("thorough", max_examples=2000, print_blob=True, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
