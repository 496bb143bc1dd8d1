"""Training steps: written as one function, in Lightning, with adapters, adversarially, meta-learning."""
from __future__ import annotations

import copy
import io
import random
import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, make_generator, on_cpu, program


def batch(seed: int, size: int = 32, features: int = 16, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = make_generator(seed)
    return torch.randn(size, features, generator=generator), torch.randint(0, classes, (size,), generator=generator)


class Encoder(nn.Module):
    """A small transformer over token ids."""

    def __init__(self, vocabulary: int = 64, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.layers(x))


@program("whole training step of a transformer, AdamW and clipping in one function")
def whole_step(compile: Compile) -> Step:
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @compile
    def train_step(ids: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def step(number: int) -> Any:
        return train_step(torch.randint(0, 64, (8, 32), generator=make_generator(number)))

    return step


@program("Lightning module with self.log and a metric", "lightning", "torchmetrics")
def lightning_module(compile: Compile) -> Step:
    import lightning  # noqa: PLC0415 - may not be installed
    import torchmetrics  # noqa: PLC0415 - may not be installed

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(16, 64)
            self.net = nn.Sequential(self.first, nn.ReLU(), nn.Linear(64, 4))
            self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=4)
            self.losses: list[float] = []

        def training_step(self, item: Any, index: int) -> torch.Tensor:
            x, y = item
            logits = self.net(x)
            loss = F.cross_entropy(logits, y)
            self.accuracy(logits, y)
            self.log("loss", loss)
            self.log("accuracy", self.accuracy, on_step=True, on_epoch=False)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.001)

    module = Classifier()
    module.training_step = compile(module.training_step)  # type: ignore[method-assign]
    data: Any = [batch(number) for number in range(10)]
    batches: Any = torch.utils.data.DataLoader(data, batch_size=None)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}

    def step(number: int) -> Any:
        """An epoch of ten batches."""
        lightning.Trainer(max_epochs=1, accelerator="cpu" if on_cpu() else "gpu", **quiet).fit(module, batches)
        return module.first.weight.detach().clone()

    return step


@program("LoRA adapters on a small Llama", "peft", "transformers")
def lora(compile: Compile) -> Step:
    import peft  # noqa: PLC0415 - may not be installed
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - may not be installed

    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    model = peft.get_peft_model(LlamaForCausalLM(config), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0))
    model = compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def step(number: int) -> Any:
        ids = torch.randint(0, 128, (4, 12 + 2 * (number % 5)), generator=make_generator(number))
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("GAN with a gradient penalty")
def gan(compile: Compile) -> Step:
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator = torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.9))
    generator, critic = compile(generator), compile(critic)

    def step(number: int) -> Any:
        torch.manual_seed(number)
        real, fake = torch.randn(32, 2) + 2, generator(torch.randn(32, 8))
        mixed = torch.lerp(real, fake.detach(), torch.rand(32, 1)).requires_grad_()
        slopes = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        penalty = (slopes.norm(dim=1) - 1).square().mean()
        loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()
        return loss.detach()

    return step


@program("MAML over sine waves with torch.func")
def maml(compile: Compile) -> Step:
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @compile
    def adapted_loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def loss(now: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.mse_loss(torch.func.functional_call(model, now, (x,)), y)

        for _ in range(3):
            slopes = torch.func.grad(loss)(parameters)
            parameters = {name: value - 0.01 * slopes[name] for name, value in parameters.items()}
        return loss(parameters)

    def step(number: int) -> Any:
        torch.manual_seed(number)
        total = torch.zeros(())
        for _ in range(2):
            x, shift = torch.rand(10, 1) * 10 - 5, torch.rand(()) * 3
            total = total + adapted_loss(dict(model.named_parameters()), x, torch.sin(x + shift))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total.detach()

    return step


@program("teacher with an exponential moving average and a schedule")
def teacher(compile: Compile) -> Step:
    student = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    ema = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)

    @compile
    def losses(x: torch.Tensor, y: torch.Tensor, weight: float) -> torch.Tensor:
        logits = student(x)
        with torch.no_grad():
            target = ema(x).softmax(-1)
        return F.cross_entropy(logits, y) + weight * F.kl_div(logits.log_softmax(-1), target, reduction="batchmean")

    @compile
    @torch.no_grad()
    def update(decay: float) -> None:
        for one, other in zip(ema.parameters(), student.parameters(), strict=True):
            one.mul_(decay).add_(other, alpha=1 - decay)

    def step(number: int) -> Any:
        x, y = batch(number)
        loss = losses(x, y, min(1.0, number / 20))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        update(min(0.99, (1 + number) / (10 + number)))
        return loss.detach(), next(ema.parameters()).detach().clone()

    return step


@program("Hugging Face Trainer, batches of varying lengths", "transformers", "accelerate")
def hugging_face_trainer(compile: Compile) -> Step:
    import transformers  # noqa: PLC0415 - may not be installed

    config = transformers.GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    model = transformers.GPT2LMHeadModel(config)
    model.forward = compile(model.forward)
    folder = tempfile.TemporaryDirectory()
    made = make_generator(0)
    texts = [torch.randint(0, 64, (8 + number % 7,), generator=made) for number in range(16)]

    def collate(items: list[Any]) -> dict[str, torch.Tensor]:
        ids = nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True)
        return {"input_ids": ids, "labels": ids.clone()}

    arguments = transformers.TrainingArguments(
        output_dir=folder.name, per_device_train_batch_size=4, max_steps=4, use_cpu=on_cpu(), report_to=[], save_strategy="no",
        logging_steps=2, disable_tqdm=True, learning_rate=1e-3,
    )  # fmt: skip

    def step(number: int) -> Any:
        """Four batches."""
        data: Any = [{"input_ids": text} for text in texts]
        trained = transformers.Trainer(model=model, args=arguments, train_dataset=data, data_collator=collate).train()
        return trained.training_loss, folder is None

    return step


@program("accelerate: accumulated gradients, clipping and a warm-up", "accelerate")
def accelerate_steps(compile: Compile) -> Step:
    import accelerate  # noqa: PLC0415 - may not be installed

    accelerator = accelerate.Accelerator(cpu=on_cpu(), gradient_accumulation_steps=2)
    model = compile(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: min(1.0, (count + 1) / 20))
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)

    def step(number: int) -> Any:
        total = 0.0
        for part in range(4):
            x, y = batch(4 * number + part)
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            total += loss.item()
        return total

    return step


@program("convolutional network with augmentation, a progress bar and checkpoints", "tqdm")
def images(compile: Compile) -> Step:
    from tqdm import tqdm  # noqa: PLC0415 - may not be installed

    chance = random.Random(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    model = compile(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    best = float("inf")

    @compile
    def augment(x: torch.Tensor, flip: bool, left: int, top: int) -> torch.Tensor:
        if flip:
            x = x.flip(-1)
        return F.pad(x, (2, 2, 2, 2))[..., top : top + 16, left : left + 16]

    def train_one_epoch(number: int) -> float:
        model.train()
        total = 0.0
        for part in tqdm(range(3), file=io.StringIO()):
            made = make_generator(3 * number + part)
            x, y = torch.randn(8, 3, 16, 16, generator=made), torch.randint(0, 10, (8,), generator=made)
            x = augment(x, chance.random() < 0.5, chance.randrange(5), chance.randrange(5))
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / 3

    def step(number: int) -> Any:
        nonlocal best
        loss = train_one_epoch(number)
        model.eval()
        with torch.no_grad():
            score = model(torch.ones(4, 3, 16, 16)).logsumexp(1).mean().item()
        if loss < best:
            best = loss
            torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())
        return loss, score

    return step


@program("variational autoencoder in bfloat16 autocast")
def autoencoder(compile: Compile) -> Step:
    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 16))
            self.decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 32))

        def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log = self.encoder(x).chunk(2, -1)
            return self.decoder(mean + noise * (0.5 * log).exp()), mean, log

    model = compile(Autoencoder())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(number: int) -> Any:
        made = make_generator(number)
        x, noise = torch.rand(16, 32, generator=made), torch.randn(16, 8, generator=made)
        weight = min(1.0, number / 30)
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            found, mean, log = model(x, noise)
        loss = F.mse_loss(found.float(), x) - weight * 0.5 * (1 + log.float() - mean.float() ** 2 - log.float().exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return round(float(loss), 2)

    return step


@program("ensemble of models with vmap")
def ensemble(compile: Compile) -> Step:
    models = [nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)) for _ in range(5)]
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    optimizer = torch.optim.Adam(list(parameters.values()), 1e-2)

    @compile
    def loss_of(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def one(mine: dict[str, torch.Tensor], own: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(base, (mine, own), (x,))

        found = torch.vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)
        return (found.squeeze(-1) - y).square().mean()

    def step(number: int) -> Any:
        x = torch.randn(16, 8, generator=make_generator(number))
        loss = loss_of(parameters, x, x.sum(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
