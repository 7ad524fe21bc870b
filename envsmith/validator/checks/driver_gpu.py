"""What the checks share that use a GPU through the driver alone."""

from __future__ import annotations

import contextlib
from typing import Iterator

from envsmith.validator.check import CheckContext, CheckFailed
from envsmith.validator.driver import Driver, DriverError, DriverMissingError
from envsmith.validator.occupied import occupied_is_no_fault


@contextlib.contextmanager
def driver_on_gpu(context: CheckContext) -> Iterator[Driver]:
    """The driver, with the primary context of the check's GPU current: the only GPU that the process sees.

    Raises CheckFailed for all that the driver refuses, CheckSkipped if others occupy the GPU.
    """
    try:
        with occupied_is_no_fault(context.device):
            driver = Driver.start()
            _require_one(driver.device_count(), context)
            with driver.primary_context(0):
                yield driver
    except (DriverMissingError, DriverError) as error:
        raise CheckFailed(f"there is a GPU, but CUDA cannot use it: {error}") from error


def _require_one(count: int, context: CheckContext) -> None:
    if count == 0:
        raise CheckFailed("there is a GPU, but the driver lists no CUDA device")
    if context.device is not None and count != 1:
        raise CheckFailed(f"the driver lists {count} GPUs where CUDA_VISIBLE_DEVICES leaves one")
