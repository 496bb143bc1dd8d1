"""Models with random weights, by name ("hf:bert", "syn:breaks"). Nothing is downloaded: every configuration is spelled out here.

Sizes: "small" fits two CPU cores, "full" fills a data-centre GPU.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from . import written_models as written

Call = tuple[tuple[Any, ...], dict[str, Any]]  # arguments of a forward


@dataclass(frozen=True)
class Scale:
    """How large a model is built, and where."""

    batch: int
    length: int
    width: int
    layers: int
    heads: int
    image: int  # pixels
    plane: tuple[int, int]  # of the synthetic ones
    full: bool
    device: str
    dtype: torch.dtype

    @classmethod
    def of_size(cls, size: str, device: str, dtype: torch.dtype) -> Scale:
        if size == "full":
            return cls(8, 128, 768, 12, 12, 224, (4096, 4096), True, device, dtype)
        return cls(2, 32, 64, 2, 4, 32, (512, 512), False, device, dtype)

    def ids(self) -> torch.Tensor:
        """Token ids (batch, length)."""
        return torch.randint(0, 1000, (self.batch, self.length), device=self.device)

    def floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def picture(self) -> torch.Tensor:
        return self.floats(self.batch, 3, self.image, self.image)


class Names(NamedTuple):
    """What a configuration calls its four sizes; "" where it has none."""

    width: str = "hidden_size"
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    inner: str = "intermediate_size"


@dataclass(frozen=True)
class Recipe:
    """A transformers model: `family` + "Config", `family` + `task`, and what differs from the usual."""

    family: str
    task: str
    names: Names = Names()
    more: dict[str, Any] = field(default_factory=dict)
    scaled: Callable[[Scale], dict[str, Any]] = lambda scale: {}
    inputs: tuple[str, ...] = ("input_ids",)
    text: bool = True

    def build(self, scale: Scale) -> tuple[nn.Module, Call]:
        import transformers  # noqa: PLC0415 - a second of import, and only some models need it

        sizes = (scale.width, scale.layers, scale.heads, 4 * scale.width)
        settings = {name: size for name, size in zip(self.names, sizes, strict=True) if name}
        settings |= ({"vocab_size": 4096} if self.text else {}) | self.more | self.scaled(scale)
        config = getattr(transformers, f"{self.family}Config")(**settings)
        model = getattr(transformers, self.family + self.task)(config)
        ids = scale.ids()
        made = {
            "input_ids": lambda: ids, "decoder_input_ids": lambda: ids, "pixel_values": scale.picture,
            "input_features": lambda: scale.floats(scale.batch, 80, 256),
        }  # fmt: skip
        return model, ((), {name: made[name]() for name in self.inputs})


NO_CACHE = {"use_cache": False}
SPEECH_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
BOTH_SIDES = ("input_ids", "decoder_input_ids")
NONE = Names("", "", "", "")


def both_sides(scale: Scale) -> dict[str, int]:
    """Sizes of models that name them for encoder and decoder."""
    sizes = {"layers": scale.layers, "attention_heads": scale.heads, "ffn_dim": 4 * scale.width}
    return {f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in sizes.items()}


def windows(scale: Scale) -> dict[str, Any]:
    small = {"embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4]}
    return {"image_size": scale.image, "patch_size": 4, "window_size": 7 if scale.full else 4, **({} if scale.full else small)}


def depths(scale: Scale) -> dict[str, Any]:
    return {} if scale.full else {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1]}


def fewer_keys(scale: Scale) -> dict[str, int]:
    return {"num_key_value_heads": max(1, scale.heads // 2)}


TRANSFORMERS = {
    "bert": Recipe("Bert", "ForMaskedLM"),
    "roberta": Recipe("Roberta", "ForSequenceClassification"),
    "distilbert": Recipe("DistilBert", "ForMaskedLM", Names("dim", "n_layers", "n_heads", "hidden_dim")),
    "albert": Recipe("Albert", "ForMaskedLM", more={"embedding_size": 128}),
    "electra": Recipe("Electra", "ForPreTraining"),
    "deberta": Recipe("DebertaV2", "ForMaskedLM"),
    "gpt2": Recipe("GPT2", "LMHeadModel", Names("n_embd", "n_layer", "n_head", ""), NO_CACHE),
    "opt": Recipe("OPT", "ForCausalLM", Names(inner="ffn_dim"), NO_CACHE, lambda scale: {"word_embed_proj_dim": scale.width}),
    "llama": Recipe("Llama", "ForCausalLM", more=NO_CACHE, scaled=fewer_keys),
    "qwen2": Recipe("Qwen2", "ForCausalLM", more=NO_CACHE, scaled=fewer_keys),
    "gemma": Recipe(
        "Gemma", "ForCausalLM", more={"num_key_value_heads": 1, **NO_CACHE}, scaled=lambda scale: {"head_dim": scale.width // scale.heads},
    ),
    "mixtral": Recipe("Mixtral", "ForCausalLM", more={"num_local_experts": 4, **NO_CACHE}, scaled=fewer_keys),
    "t5": Recipe(
        "T5", "ForConditionalGeneration", Names("d_model", "num_layers", "num_heads", "d_ff"), NO_CACHE,
        lambda scale: {"d_kv": scale.width // scale.heads}, BOTH_SIDES,
    ),
    "bart": Recipe("Bart", "ForConditionalGeneration", Names("d_model", "", "", ""), NO_CACHE, both_sides, BOTH_SIDES),
    "whisper": Recipe(
        "Whisper", "ForConditionalGeneration", Names("d_model", "", "", ""), {"max_source_positions": 128, **SPEECH_TOKENS, **NO_CACHE},
        both_sides, ("input_features", "decoder_input_ids"),
    ),
    "vit": Recipe(
        "ViT", "ForImageClassification", scaled=lambda scale: {"image_size": scale.image, "patch_size": 16},
        inputs=("pixel_values",), text=False,
    ),
    "swin": Recipe("Swin", "ForImageClassification", NONE, scaled=windows, inputs=("pixel_values",), text=False),
    "clip": Recipe(
        "CLIPVision", "Model", scaled=lambda scale: {"image_size": scale.image, "patch_size": 16}, inputs=("pixel_values",), text=False,
    ),
    "convnext": Recipe("ConvNext", "ForImageClassification", NONE, scaled=depths, inputs=("pixel_values",), text=False),
    "segformer": Recipe("Segformer", "ForSemanticSegmentation", NONE, inputs=("pixel_values",), text=False),
    "mamba": Recipe(
        "Mamba", "ForCausalLM", Names(layers="", heads="", inner=""), NO_CACHE, lambda scale: {"num_hidden_layers": min(scale.layers, 4)},
    ),
}  # fmt: skip


class Pointwise(nn.Module):
    """Long chains of cheap operations."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.sin(x) * torch.cos(y) + x * 0.5
            y = nn.functional.gelu(x) - y
        return x + y


class Breaks(nn.Module):
    """A loop that looks at a tensor's value in each round, so breaks are unavoidable."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.relu(self.first(x))
            x = x * 2 if x.sum().item() > 0 else self.second(x)
        return x


def graph_convolutions(s: Scale) -> tuple[nn.Module, Call]:
    nodes, edges, width = (20_000, 200_000, 128) if s.full else (500, 3000, 32)
    return written.GraphConvolutions(width, 4), (
        (s.floats(nodes, width), torch.randint(0, nodes, (2, edges), device=s.device), s.floats(edges).abs()), {},
    )  # fmt: skip


def unet(s: Scale) -> tuple[nn.Module, Call]:
    batch, width, pixels = (8, 128, 64) if s.full else (2, 16, 16)
    return written.DiffusionUNet(width), ((s.floats(batch, 3, pixels, pixels), s.floats(batch).abs()), {})


def nerf(s: Scale) -> tuple[nn.Module, Call]:
    rays, samples, width = (4096, 64, 256) if s.full else (256, 32, 64)
    depths = s.floats(rays, samples).abs().cumsum(-1)
    return written.RadianceField(width), ((s.floats(rays, 3), s.floats(rays, 3), depths), {})


SYNTHETIC: dict[str, Callable[[Scale], tuple[nn.Module, Call]]] = {
    "mlp-tiny": lambda s: (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), ((s.floats(8, 64),), {})),
    "pointwise": lambda s: (Pointwise(), ((s.floats(*s.plane), s.floats(*s.plane)), {})),
    "breaks": lambda s: (Breaks(), ((s.floats(32, 256),), {})),
    "gcn": graph_convolutions,
    "unet": unet,
    "nerf": nerf,
    "branch": lambda s: (written.Branch(64), ((s.floats(64, 64),), {})),
    "scan": lambda s: (written.Recurrence(64), ((s.floats(64, 16, 64),), {})),
    "loop": lambda s: (written.Relaxation(64), ((s.floats(64, 64),), {})),
    "map": lambda s: (written.RowWise(64), ((s.floats(32, 16, 64),), {})),
}


def timm_model(name: str, scale: Scale) -> tuple[nn.Module, Call]:
    import timm  # noqa: PLC0415 - optional

    batch, pixels = (16, 224) if scale.full else (2, 64)
    return timm.create_model(name), ((scale.floats(batch, 3, pixels, pixels),), {})


def torchvision_model(name: str, scale: Scale) -> tuple[nn.Module, Call]:
    import torchvision  # noqa: PLC0415 - optional

    batch, pixels = (16, 224) if scale.full else (2, 64)
    return getattr(torchvision.models, name)(), ((scale.floats(batch, 3, pixels, pixels),), {})


def build(name: str, scale: Scale) -> tuple[nn.Module, Call]:
    """The module, in evaluation mode, and the arguments of its forward. Raises KeyError for an unknown name."""
    torch.manual_seed(0)
    family, model = name.split(":")
    if family == "hf":
        module, call = TRANSFORMERS[model].build(scale)
    elif family == "syn":
        module, call = SYNTHETIC[model](scale)
    else:
        module, call = {"timm": timm_model, "tv": torchvision_model}[family](model, scale)
    return module.to(device=scale.device, dtype=scale.dtype).eval(), call


ALL_TRANSFORMERS = tuple(f"hf:{name}" for name in TRANSFORMERS)
ALL_SYNTHETIC = tuple(f"syn:{name}" for name in SYNTHETIC)
VISION = ("timm:mobilenetv3_large_100", "timm:resnet18", "tv:resnet50", "tv:mobilenet_v3_small")


def usual(families: set[str]) -> list[str]:
    """The models measured where nobody names any: those of the families that can be built here."""
    return [name for name in (*ALL_SYNTHETIC, *ALL_TRANSFORMERS, *VISION) if name.partition(":")[0] in families]
