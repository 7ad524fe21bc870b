"""All checks, in the order in which they run: what others rest on comes first."""

from __future__ import annotations

from envsmith.validator.check import Check
from envsmith.validator.checks.amp_matmul import amp_matmul
from envsmith.validator.checks.companions import companions
from envsmith.validator.checks.copy_bandwidth import copy_bandwidth
from envsmith.validator.checks.cuda_kernel_driver import cuda_kernel_driver
from envsmith.validator.checks.cuda_kernel_torch import cuda_kernel_torch
from envsmith.validator.checks.cuda_libraries import cuda_libraries
from envsmith.validator.checks.cudnn_convolution import cudnn_convolution
from envsmith.validator.checks.cudnn_layers import cudnn_layers
from envsmith.validator.checks.data_loader import data_loader
from envsmith.validator.checks.ddp_step import ddp_step
from envsmith.validator.checks.device_assert import device_assert
from envsmith.validator.checks.device_memory import device_memory
from envsmith.validator.checks.driver_memory_copy import driver_memory_copy
from envsmith.validator.checks.equal_results import equal_results
from envsmith.validator.checks.nccl_all_reduce import nccl_all_reduce
from envsmith.validator.checks.nccl_bandwidth import nccl_bandwidth
from envsmith.validator.checks.nvcc_kernel import nvcc_kernel
from envsmith.validator.checks.nvrtc_kernel import nvrtc_kernel
from envsmith.validator.checks.rates import rates
from envsmith.validator.checks.rates_sustained import rates_sustained
from envsmith.validator.checks.torch_compile import torch_compile
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.checks.torch_matches import torch_matches
from envsmith.validator.checks.training_step import training_step
from envsmith.validator.checks.triton_kernel import triton_kernel

ALL: tuple[Check, ...] = (
    cuda_kernel_driver,
    driver_memory_copy,
    torch_import,
    torch_matches,
    cuda_libraries,
    companions,
    cuda_kernel_torch,
    torch_compile,
    nvcc_kernel,
    triton_kernel,
    nvrtc_kernel,
    device_assert,
    cudnn_convolution,
    cudnn_layers,
    nccl_all_reduce,
    nccl_bandwidth,
    amp_matmul,
    training_step,
    rates,
    data_loader,
    ddp_step,
    equal_results,
    copy_bandwidth,
    device_memory,
    rates_sustained,
)
