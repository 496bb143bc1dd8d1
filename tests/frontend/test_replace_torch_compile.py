"""framejit.install: torch.compile means framejit's, and is torch's again afterwards."""

from __future__ import annotations

import warnings

import framejit
import pytest
import torch
from framejit import errors

ORIGINALS = (
    torch.compile, torch.compiler.compile, torch.compiler.reset, torch.compiler.set_stance,
    torch.nn.Module.compile,
)  # fmt: skip


def now():
    return (
        torch.compile,
        torch.compiler.compile,
        torch.compiler.reset,
        torch.compiler.set_stance,
        torch.nn.Module.compile,
    )


@pytest.fixture(autouse=True)
def _torchs_own_afterwards():
    yield
    framejit.uninstall()
    assert now() == ORIGINALS


def sine(x):
    return x.sin() + 1


def options_of(compiled):
    return compiled.framejit.cache.options


def test_a_function():
    with framejit.install():
        step = torch.compile(sine)
        also = torch.compiler.compile(sine)
    torch.testing.assert_close(step(torch.ones(3)), sine(torch.ones(3)))
    assert step.framejit.compiles == 1 and also.framejit.is_compiled
    assert now() == ORIGINALS


def test_a_decorator_with_and_without_arguments():
    with framejit.install():
        plain = torch.compile(sine)
        given = torch.compile(dynamic=True, fullgraph=True, backend="eager")(sine)
    assert plain(torch.ones(2)).equal(given(torch.ones(2)))
    chosen = options_of(given)
    assert (chosen.dynamic, chosen.fullgraph, chosen.backend) == (True, True, "eager")


@pytest.mark.parametrize("how", ["torch.compile", "Module.compile"])
def test_a_module_stays_itself(how):
    class Own(torch.nn.Linear):  # modules of one structure share a handle
        pass

    model = Own(3, 3)
    with framejit.install(backend="eager"):
        assert (torch.compile(model) if how == "torch.compile" else model.compile() or model) is (
            model
        )
    model(torch.ones(3))
    assert model.framejit.is_compiled and list(model.state_dict()) == ["weight", "bias"]
    assert len(model.framejit.explain().graphs) == 1


@pytest.mark.parametrize(
    "asked, expected",
    [
        ({}, ("autotune", "default", ())),
        ({"backend": "aot_eager"}, ("aot_eager", "default", ())),
        ({"backend": "aot_eager_decomp_partition"}, ("aot_eager", "default", ())),
        ({"mode": "max-autotune"}, ("autotune", "max-autotune", ())),
        ({"options": {"triton.cudagraphs": True}}, ("autotune", "reduce-overhead", ())),
        ({"options": {"max_autotune": False}}, ("autotune", "default", ())),
        (
            {"backend": "inductor", "options": {"max_autotune": True}},
            ("inductor", "default", (("max_autotune", True),)),
        ),
        ({"isolate_recompiles": True, "name": "mine"}, ("autotune", "default", ())),
    ],
    ids=str,
)
def test_arguments(asked, expected):
    with framejit.config.patch(backend="autotune"), framejit.install(), warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = options_of(torch.compile(sine, **asked))
    assert (chosen.backend, chosen.mode, chosen.backend_options) == expected


def test_a_limit_of_recompiles():
    with framejit.install():
        assert options_of(torch.compile(sine, recompile_limit=3)).recompile_limit == 3
        assert options_of(torch.compile(sine)).recompile_limit == framejit.config.recompile_limit


def test_a_backend_that_only_torch_knows():
    with framejit.install():
        step = torch.compile(sine, backend="pre_dispatch_eager")
    assert callable(options_of(step).backend)
    torch.testing.assert_close(step(torch.ones(3)), sine(torch.ones(3)))


def test_what_has_no_counterpart_warns_once(monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())
    asked = {"options": {"epilogue_fusion": True}, "shapes_spec": object()}
    with framejit.install(), pytest.warns(errors.FramejitWarning) as found:
        torch.compile(sine, **asked)
        torch.compile(sine, **asked)
    assert [str(one.message).split(" has no ")[0] for one in found] == [
        "framejit: torch.compile's option 'epilogue_fusion'",
        "framejit: torch.compile's shapes_spec",
    ]


def test_disable_returns_the_function():
    with framejit.install():
        assert torch.compile(sine, disable=True) is sine


def test_torchs_own_modules_keep_torchs_compiler():
    torch._dynamo.reset()
    with framejit.install():
        made = torch.cond(
            torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (torch.ones(3),)
        )
    assert made.equal(torch.ones(3).sin())


def test_what_framejit_does_not_take_goes_to_torch(monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())

    class Adder:
        def __call__(self, x):
            return x + 1

    with framejit.install(), pytest.warns(errors.FramejitWarning, match="itself"):
        compiled = torch.compile(Adder, backend="eager")
    assert compiled()(torch.ones(2)).tolist() == [2.0, 2.0]


def test_installations_end_in_any_order():
    first = framejit.install(backend="eager")
    second = framejit.install(backend="aot_eager")
    assert options_of(torch.compile(sine)).backend == "aot_eager"
    first.uninstall()
    first.uninstall()
    assert options_of(torch.compile(sine)).backend == "aot_eager"
    second.uninstall()
    assert now() == ORIGINALS


def test_wrong_defaults_install_nothing():
    with pytest.raises(ValueError, match="unknown"):
        framejit.install(backend="no_such_backend")
    assert now() == ORIGINALS


def test_a_reset_forgets_both():
    with framejit.install(backend="eager"):
        step = torch.compile(sine)
        step(torch.ones(3))
        torch.compiler.reset()
        step(torch.ones(3))
    assert step.framejit.compiles == 2


def test_a_stance_holds_for_both():
    with framejit.install(backend="eager"):
        step = torch.compile(sine)
        with torch.compiler.set_stance("force_eager"):
            step(torch.ones(3))
            assert step.framejit.compiles == 0
        step(torch.ones(3))
        assert step.framejit.compiles == 1

        @torch.compiler.set_stance("fail_on_recompile")
        def call_with_another_size():
            return step(torch.ones(4))

        with pytest.raises(framejit.RecompileError):
            call_with_another_size()
        with torch.compiler.set_stance("eager_then_compile"):
            step(torch.ones(4))
        assert step.framejit.compiles == 2


@pytest.mark.parametrize("value, expected", [("1", "True"), ("0", "False")])
def test_the_environment_installs(value, expected, torch_server, tmp_path):
    code = (
        "import framejit, torch; f = torch.compile(lambda x: x + 1); print(hasattr(f, 'framejit'))"
    )
    done = torch_server.run(code, tmp_path, FRAMEJIT_REPLACE_TORCH_COMPILE=value)
    assert done.stdout.strip() == expected, done.stderr
