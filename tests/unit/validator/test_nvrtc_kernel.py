"""What NVRTC complained of is found under the source that PyTorch prints with it."""

from __future__ import annotations

from envsmith.validator.checks.nvrtc_kernel import compilers_words

_SOURCE = "\n#ifdef __HIPCC__\n" + "static_assert(sizeof(int) == 4);\n" * 300


def test_errors_are_shown_without_the_source() -> None:
    log = 'default_program(23): warning: unused\ndefault_program(24): error: identifier "nonsense" is undefined\n'
    assert compilers_words(_SOURCE + log) == 'default_program(24): error: identifier "nonsense" is undefined'


def test_of_many_errors_the_first_three_are_shown() -> None:
    log = "".join(f"default_program({line}): error: bad\n" for line in range(9))
    assert compilers_words(log).count(";") == 2


def test_a_library_that_does_not_open_is_shown_as_it_is() -> None:
    words = "nvrtc: error: failed to open libnvrtc-builtins.so.12.4.\n  Make sure that it is installed correctly."
    assert compilers_words(_SOURCE + words) == "nvrtc: error: failed to open libnvrtc-builtins.so.12.4."


def test_without_such_a_line_the_last_one_is_shown() -> None:
    assert compilers_words("CUDA driver error: too old\n\n") == "CUDA driver error: too old"
