"""What an environment is expected to hold, as it arrives on a command line."""

from __future__ import annotations

import json
from dataclasses import fields

from envsmith.wire.results import Expectation


def read_expectation(text: str) -> Expectation:
    """Read an Expectation from JSON. Raises ValueError, whose text says what is wrong."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    names = [field.name for field in fields(Expectation)]
    if not isinstance(value, dict) or not set(value) <= set(names):
        raise ValueError(f"it must be a JSON object with only the keys {', '.join(names)}")
    capabilities = value.pop("compute_capabilities", None)
    if not all(item is None or isinstance(item, str) for item in value.values()):
        raise ValueError("every value but compute_capabilities must be text or null")
    if capabilities is not None:
        if not isinstance(capabilities, list) or not all(isinstance(item, str) for item in capabilities):
            raise ValueError("compute_capabilities must be a list of texts such as '9.0'")
        capabilities = tuple(capabilities)
    stated = {name: item for name, item in value.items() if item is not None}
    return Expectation(compute_capabilities=capabilities, **stated)
