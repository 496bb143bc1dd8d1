"""Where objects keep their attributes."""

import framejit
import torch


class Munch(dict):
    """A dictionary with its items as attributes, whose `__dict__` is a copy (munch has this)."""

    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, name)
        except AttributeError:
            return self[name]

    @property
    def __dict__(self):
        return {**self, "copied": True}


def test_a_dict_attribute_of_the_classs_own():
    config = Munch(scale=0.5, inner=Munch(shift=2.0))

    def function(x):
        named = config.__dict__
        return x * config.scale + config.inner.shift, sorted(named), vars(config)["copied"]

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert str(compiled(x)) == str(function(x))
    config["scale"] = 3.0
    assert str(compiled(x)) == str(function(x))
