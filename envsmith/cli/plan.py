"""`envsmith plan`: what would be built, and why."""

from __future__ import annotations

from envsmith.cli import request as options
from envsmith.errors import NoSolutionError


def plan(
    torch: options.TorchOption = None,
    cuda: options.CudaOption = None,
    cudnn: options.CudnnOption = None,
    python: options.PythonOption = None,
    os_name: options.OsOption = None,
    variant: options.VariantOption = "runtime",
    gpu: options.GpuOption = None,
    driver: options.DriverOption = None,
    platform: options.PlatformOption = None,
    companions: options.WithOption = None,
    exact: options.ExactOption = False,
    output: options.FormatOption = "text",
) -> int:
    """Choose versions that fit each other, and say why. Anything left out is chosen."""
    from envsmith.app.plan import make_plan
    from envsmith.compat.load import load_matrix
    from envsmith.model.plan import Refusal

    as_json = options.output_format(output) == "json"
    matrix = load_matrix()
    typed = options.Typed(
        torch, cuda, cudnn, python, os_name, variant, tuple(gpu or ()), driver, platform, companions, exact
    )
    answer = make_plan(options.build_request(typed, matrix), matrix)
    if as_json:
        from envsmith.report.documents import print_json

        print_json(answer)
    else:
        from envsmith.report.plan_text import print_answer

        print_answer(answer)
    return NoSolutionError.exit_status if isinstance(answer, Refusal) else 0
