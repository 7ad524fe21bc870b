"""NVML through the `pynvml` module of nvidia-ml-py, where it is to be had: it comes with the bundle."""

from __future__ import annotations

from typing import Any


class NvmlLibrary:
    """NVML, initialised. Without it every answer is None."""

    def __init__(self) -> None:
        self._module: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # noqa: BLE001 - NVML refuses, or the environment's pynvml is broken in its own way
            return
        self._module = pynvml

    def ask(self, question: str, *arguments: Any) -> Any:
        """The answer; None where this GPU, driver, pynvml or user gets none, or an argument was no answer itself."""
        if self._module is None or None in arguments:
            return None
        try:
            return getattr(self._module, question)(*arguments)
        except Exception:  # noqa: BLE001 - NVMLError of any kind; an old pynvml has it otherwise, or not at all
            return None

    def ask_text(self, question: str, *arguments: Any) -> str | None:
        """The same where the answer is text; releases of pynvml differ in whether that is bytes."""
        value = self.ask(question, *arguments)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
