"""The container was started without a GPU on a machine that has one.

## What it checks

Inside a container: whether the host's driver is loaded (`/proc/driver/nvidia`, which containers see) while the
container has no `/dev/nvidia*` nodes, or has them without the driver's `libcuda.so.1`, as `--privileged` does.
It is an error where the container is meant for a GPU: torch is a CUDA build, or `NVIDIA_VISIBLE_DEVICES` asks.
Elsewhere it is only told.

## Why it matters

An image never brings a GPU or a driver with it, whatever CUDA it holds: the engine hands both in when it starts
the container, and only if asked. Nothing that is installed in the image changes that.

## How to fix

Start the container with a GPU: `--gpus all`, a CDI device, `--nv` or a resource limit, whichever the engine
takes. If Docker refuses, install the NVIDIA Container Toolkit on the host and configure Docker for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.doctor import advice
from envsmith.doctor.rule import Problem, rule
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import DeviceNode, DriverFacts, EnvVar, HostFacts, TorchFacts

_TRY = "run --rm {option} debian:stable-slim nvidia-smi"
_DOCKER = Fix(
    "Start the container with --gpus all. This command proves that Docker can give one out.",
    ("docker " + _TRY.format(option="--gpus all"),),
)
_DOCKER_SETUP = Fix(
    "If Docker refuses: install the NVIDIA Container Toolkit on the host and tell Docker of it.",
    ("sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"),
    needs_root=True,
)
_CDI = Fix(
    "Start the container with --device nvidia.com/gpu=all. On the host, the first command writes the specification.",
    (
        "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        "podman " + _TRY.format(option="--device nvidia.com/gpu=all"),
    ),
    needs_root=True,
)
_FIXES = {
    "docker": (_DOCKER, _DOCKER_SETUP),
    "podman": (_CDI,),
    "kubernetes": (
        Fix(
            'Ask for a GPU in the pod: resources.limits "nvidia.com/gpu": 1. The command shows what the nodes offer.',
            ("kubectl describe nodes | grep -E '^Name:|nvidia.com/gpu'",),
        ),
    ),
    "apptainer": (Fix("Start the container with --nv."),),
}
_OTHERS = (Fix("Start the container with a GPU: --gpus all, or the CDI device nvidia.com/gpu=all."),)


@rule(id="ENV301", name="container-without-gpu", severity=Severity.ERROR, since="0.1")
def container_without_gpu(
    host: HostFacts,
    device_nodes: tuple[DeviceNode, ...],
    driver: DriverFacts | None,
    env: tuple[EnvVar, ...] | None = None,
    torch: TorchFacts | None = None,
) -> Iterator[Problem]:
    """Yield a problem if the host has a driver and the container has no GPU, or only half of one."""
    if not host.container or driver is None or driver.kernel_module_version is None:
        return
    gpu_nodes = [node for node in device_nodes if node.path.startswith("/dev/nvidia")]
    libcuda = driver.libcuda is not None and driver.libcuda.origin != "stub"
    if gpu_nodes and libcuda:
        return
    evidence = [
        Evidence("host.container", host.container, "started with a GPU"),
        Evidence("driver.kernel_module_version", driver.kernel_module_version, "the host's driver, loaded"),
        Evidence("device_nodes", f"{len(gpu_nodes)} of /dev/nvidia*", "/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm"),
        Evidence("driver.libcuda", driver.libcuda.path if driver.libcuda else "none", "the host's libcuda.so.1"),
    ]
    evidence += [
        Evidence(f"env.{variable.name}", variable.value, "all, or the GPUs wanted")
        for variable in env or ()
        if variable.name == "NVIDIA_VISIBLE_DEVICES" and variable.value in {"", "none", "void"}
    ]
    if gpu_nodes:
        summary = (
            "The container has GPU device nodes without the driver's libraries: --privileged does not ask for a GPU"
        )
    else:
        summary = "This container was started without a GPU, on a host whose NVIDIA driver is loaded"
    severity = Severity.ERROR if advice.gpu_is_wanted(torch, env) else Severity.INFO
    yield Problem(summary, tuple(evidence), _FIXES.get(host.container, _OTHERS), severity)
