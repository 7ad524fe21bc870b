"""Which check may start when: a state machine, so no process is needed to try it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator import schedule
from envsmith.validator.check import GPU_ALONE, LIGHT, MACHINE_ALONE, SHARED, Check
from envsmith.validator.devices import Device
from envsmith.validator.schedule import Schedule, Task
from envsmith.wire.results import CheckResult
from tests.unit.validator import toys

H200 = Device(0, "NVIDIA H200", "9.0", "0", "GPU-aa", 141 << 30)
OTHER = replace(H200, index=1, visible_as="1", uuid="GPU-ab")
SLICE = Device(0, "NVIDIA A100 MIG 1g.5gb", "8.0", "MIG-aa", "MIG-aa", 5 << 30)


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "usable_cpus", lambda: 16)


def gpu(name: str, claims: str = SHARED, **more: object) -> Check:
    return toys.toy(name, toys.passes, needs_gpu=True, per_gpu=True, claims=claims, **more)


def plan(*checks: Check, devices: tuple[Device, ...] = (H200,), reason: str | None = None) -> Schedule:
    return Schedule(checks, devices, reason, {})


def start(what: Schedule, torch_is_ready: bool = True) -> list[Task]:
    """Take all that may start now."""
    tasks = []
    while True:
        task = what.next(torch_is_ready)
        if task is None:
            return tasks
        tasks.append(task)


def names(tasks: list[Task]) -> list[str]:
    return [task.check.id + (f"@{task.device.index}" if task.device else "") for task in tasks]


def result(task: Task, status: str = "pass") -> CheckResult:
    return CheckResult(task.check.id, task.check.title, status, 1.0)


def test_what_shares_runs_side_by_side_and_what_measures_after_it_alone() -> None:
    what = plan(gpu("rates", GPU_ALONE), gpu("kernel"), gpu("copy", MACHINE_ALONE), gpu("conv"))
    first = start(what)
    assert names(first) == ["kernel@0", "conv@0"]
    assert start(what) == []
    what.finish(first[0], result(first[0]))
    assert start(what) == []
    what.finish(first[1], result(first[1]))
    (rates,) = start(what)
    assert names([rates]) == ["rates@0"]
    what.finish(rates, result(rates))
    assert names(start(what)) == ["copy@0"]


def test_what_hardly_touches_the_gpu_goes_on_beside_what_is_measured_there() -> None:
    what = plan(gpu("compile", LIGHT), gpu("kernel"), gpu("rates", GPU_ALONE), gpu("copy", MACHINE_ALONE))
    light, kernel = start(what)
    what.finish(kernel, result(kernel))
    (rates,) = start(what)
    assert names([rates]) == ["rates@0"]
    what.finish(rates, result(rates))
    assert start(what) == []
    what.finish(light, result(light))
    assert names(start(what)) == ["copy@0"]


def test_what_hardly_touches_the_gpu_starts_beside_a_measurement() -> None:
    what = plan(gpu("compile", LIGHT, requires=("kernel",)), gpu("kernel"), gpu("rates", GPU_ALONE))
    (kernel,) = start(what)
    what.finish(kernel, result(kernel))
    assert names(start(what)) == ["compile@0", "rates@0"]


def test_a_gpu_in_exclusive_mode_takes_one_process_even_beside_a_light_one() -> None:
    exclusive = replace(H200, exclusive=True)
    what = plan(gpu("compile", LIGHT), gpu("rates", GPU_ALONE), devices=(exclusive,))
    assert names(start(what)) == ["compile@0"]


def test_threads_are_shared_out_among_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus, processes, threads in ((1, 1, 1), (2, 1, 2), (16, 8, 2), (64, 8, 8)):
        monkeypatch.setattr(schedule, "usable_cpus", lambda cpus=cpus: cpus)
        assert (schedule.width(), schedule.threads_each()) == (processes, threads)


def test_other_gpus_go_on_beside_one_that_is_measured() -> None:
    what = plan(gpu("kernel"), gpu("rates", GPU_ALONE), devices=(H200, OTHER))
    kernels = start(what)
    assert names(kernels) == ["kernel@0", "kernel@1"]
    assert what.finish(kernels[1], result(kernels[1])) is None
    assert names(start(what)) == ["rates@1"]


def test_a_check_over_all_gpus_does_not_start_beside_a_measurement_on_one() -> None:
    both = toys.toy("ddp", toys.passes, needs_gpu=True, requires=("kernel",))
    what = plan(gpu("kernel"), both, gpu("rates", GPU_ALONE), devices=(H200, OTHER))
    kernels = start(what)
    what.finish(kernels[0], result(kernels[0]))
    assert names(start(what)) == ["rates@0"]
    what.finish(kernels[1], result(kernels[1]))
    assert names(start(what)) == ["rates@1"]


def test_a_measurement_of_the_machine_waits_for_everything_and_lets_nothing_start() -> None:
    what = plan(toys.toy("plain", toys.passes), gpu("copy", MACHINE_ALONE), devices=(H200, OTHER))
    (plain,) = start(what)
    what.guests = 1
    what.finish(plain, result(plain))
    assert start(what) == []
    what.guests = 0
    assert names(start(what)) == ["copy@0"]


def test_requirements_come_first_and_their_failure_is_a_reason() -> None:
    what = plan(gpu("kernel"), gpu("conv", requires=("kernel",)), devices=(H200, OTHER))
    kernels = start(what)
    assert names(kernels) == ["kernel@0", "kernel@1"]
    what.finish(kernels[0], result(kernels[0]))
    assert start(what) == []
    merged = what.finish(kernels[1], result(kernels[1], "fail"))
    assert merged is not None
    assert merged.status == "fail"
    for task in start(what):
        assert what.reason_to_skip(task) == "needs kernel, which says fail"


def test_slow_checks_start_before_others_that_are_ready_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "usable_cpus", lambda: 4)
    what = plan(gpu("a"), gpu("b"), gpu("compile", slow=True))
    assert names(start(what)) == ["compile@0", "a@0"]


@pytest.mark.parametrize(("cpus", "width"), [(1, 1), (2, 1), (4, 2), (16, 8), (224, 8)])
def test_half_of_the_processors_are_used(monkeypatch: pytest.MonkeyPatch, cpus: int, width: int) -> None:
    monkeypatch.setattr(schedule, "usable_cpus", lambda: cpus)
    assert len(start(plan(*(gpu(f"c{number}") for number in range(20))))) == width


def test_a_check_over_all_gpus_counts_for_as_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "usable_cpus", lambda: 6)
    both = toys.toy("ddp", toys.passes, needs_gpu=True)
    assert names(start(plan(both, gpu("a"), gpu("b"), devices=(H200, OTHER)))) == ["ddp", "a@0"]


@pytest.mark.parametrize(
    ("device", "places"),
    [(replace(H200, exclusive=True), 1), (replace(H200, memory_total_bytes=4 << 30), 2), (SLICE, 2), (H200, 8)],
)
def test_a_gpu_that_is_small_or_exclusive_is_shared_by_few(device: Device, places: int) -> None:
    assert len(start(plan(*(gpu(f"c{number}") for number in range(20)), devices=(device,)))) == places


def test_torch_checks_wait_for_torch_and_its_import_counts_for_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "usable_cpus", lambda: 2)
    starter = replace(toys.toy("import", toys.passes), starts_host=True, needs_torch=True)
    what = plan(starter, gpu("driver"), gpu("conv", needs_torch=True))
    first = start(what, torch_is_ready=False)
    assert names(first) == ["import", "driver@0"]
    what.finish(first[1], result(first[1]))
    assert start(what, torch_is_ready=False) == []
    assert names(start(what)) == ["conv@0"]


def test_a_gpu_that_a_stuck_process_holds_is_left_alone_and_others_are_not() -> None:
    what = plan(gpu("kernel"), gpu("conv", requires=("not here",)), gpu("rates", GPU_ALONE), devices=(H200, OTHER))
    tasks = start(what)
    kernel = next(task for task in tasks if names([task]) == ["kernel@0"])
    what.finish(kernel, result(kernel, "timeout"), survivors=(4711,))
    for task in tasks:
        if task is not kernel:
            what.finish(task, result(task))
    reasons = {names([task])[0]: what.reason_to_skip(task) for task in start(what)}
    assert reasons == {
        "rates@0": "process 4711 of kernel could not be killed and holds the GPU",
        "rates@1": None,
    }


def test_without_a_gpu_its_checks_are_one_task_with_the_reason() -> None:
    what = plan(gpu("kernel"), devices=(), reason="no GPU here")
    (task,) = start(what)
    assert (task.device, what.reason_to_skip(task)) == (None, "no GPU here")


def test_of_slices_a_check_over_all_uses_the_first_only() -> None:
    second = replace(SLICE, index=1, visible_as="MIG-ab", uuid="MIG-ab", exclusive=True)
    both = toys.toy("ddp", toys.passes, needs_gpu=True)
    what = plan(both, gpu("kernel"), devices=(SLICE, second))
    assert names(start(what)) == ["ddp", "kernel@0", "kernel@1"]


checks = st.lists(
    st.tuples(
        st.sampled_from([SHARED, LIGHT, GPU_ALONE, MACHINE_ALONE]), st.booleans(), st.booleans(), st.integers(0, 20)
    ),
    max_size=12,
)


@given(checks, st.integers(0, 3), st.data())
def test_whatever_ends_first_everything_runs_and_no_claim_is_broken(
    drawn: list[tuple[str, bool, bool, int]], count: int, data: st.DataObject
) -> None:
    devices = tuple(replace(H200, index=index, visible_as=str(index)) for index in range(count))
    made: list[Check] = []
    for number, (claims, per_gpu, needs_gpu, behind) in enumerate(drawn):
        requires = (made[behind % number].id,) if number and behind else ()
        more = {"needs_gpu": needs_gpu or per_gpu, "per_gpu": per_gpu, "claims": claims, "requires": requires}
        made.append(toys.toy(f"c{number}", toys.passes, **more))
    what = plan(*made, devices=devices)
    running: list[Task] = []
    while not what.is_finished:
        running += start(what)
        assert running, "nothing runs and nothing may start"
        _assert_claims_hold(what, running)
        task = running.pop(data.draw(st.integers(0, len(running) - 1)))
        what.finish(task, result(task))
    assert set(what.results) == {check.id for check in made}


def _assert_claims_hold(what: Schedule, running: list[Task]) -> None:
    for task in running:
        others = [other for other in running if other is not task]
        if task.check.claims == MACHINE_ALONE:
            assert others == []
        if task.check.claims == GPU_ALONE:
            mine = set(what._used(task))
            assert not any(mine & set(what._used(other)) for other in others if other.check.claims != LIGHT)
