"""Which python3 an image means, as a full path.

A CDI device may bring its own PATH into the container, in front of the image's: `python3` would then be another
interpreter than the one that the image's users get, such as the system's beside the virtual environment's.
"""

from __future__ import annotations

from typing import Any

from envsmith.engine.container import short_lived
from envsmith.errors import UsageError

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # Docker's, for images without one
_HTTP_OK = 200
_REQUEST_LIMIT_S = 30.0


def image_path(attributes: dict[str, Any]) -> str:
    """PATH as the image's configuration sets it; attributes: what the engine says of the image."""
    for variable in (attributes.get("Config") or {}).get("Env") or ():
        name, _, value = str(variable).partition("=")
        if name == "PATH":
            return value
    return _DEFAULT_PATH


def find_python(client: Any, image: str, path: str) -> str:
    """Return the full path of the first python3 in the folders of `path`.

    Looks into a container that is created and never started. Raises UsageError when there is none.
    """
    with short_lived(lambda: client.containers.create(image, entrypoint=["python3"], network_mode="none")) as container:
        for folder in path.split(":"):
            program = f"{folder.rstrip('/')}/python3"
            if folder.startswith("/") and _exists(container, program):
                return program
    raise UsageError("the image has no python3 in its PATH, so nothing can be checked inside it")


def _exists(container: Any, path: str) -> bool:
    api = container.client.api
    url = f"{api.base_url}/v{api.api_version}/containers/{container.id}/archive"
    return bool(api.head(url, params={"path": path}, timeout=_REQUEST_LIMIT_S).status_code == _HTTP_OK)
