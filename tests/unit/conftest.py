"""Whether there is a terminal, and how wide it is, a test says itself: what the shell or a CI job sets is not asked."""

from __future__ import annotations

import os

for _name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)
