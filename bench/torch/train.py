#!/usr/bin/env python3
"""Steps per second of small models with DistributedDataParallel, gloo and weft by turns in the same processes.

  build/torch/venv/bin/python bench/torch/train.py [--models gpt,resnet,dlrm] [--ranks 2] [--steps 8] [--blocks 5]

Every rank has one thread. A block is `--steps` steps of one backend; blocks of gloo, of weft and of no exchange at all
(no_sync) follow each other, so that all meet the same load of the machine. Reported are minimum and median over blocks: ms per
step, and what of it is exposed communication (the step less the one without exchange). Both replicas start from the same
weights; their losses are compared at the end.
"""

import argparse
import contextlib
import os
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.nn import functional as f
from torch.nn.parallel import DistributedDataParallel


class Gpt(nn.Module):
    """A decoder of GPT-2's form, 11 million parameters by default."""

    def __init__(self, vocabulary=4096, width=256, layers=10, heads=4, length=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.blocks(h, mask=self.mask, is_causal=True))

    def batch(self, generator):
        x = torch.randint(4096, (1, 65), generator=generator)
        return x[:, :-1], x[:, 1:].reshape(-1)

    def loss(self, out, wanted):
        return f.cross_entropy(out.reshape(-1, out.shape[-1]), wanted)


class ResNet(nn.Module):
    """Residual blocks of 3x3 convolutions in four stages, 11 million parameters, on images of 16x16."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.way = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
            )  # fmt: skip
            self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 or inputs != outputs else nn.Identity()

        def forward(self, x):
            return f.relu(self.way(x) + self.around(x))

    def __init__(self):
        super().__init__()
        widths = [64, 64, 128, 256, 512]
        stages = [nn.Conv2d(3, 64, 3, 1, 1, bias=False)]
        for i in range(4):
            stages += [self.Block(widths[i], widths[i + 1], 2 if i else 1), self.Block(widths[i + 1], widths[i + 1], 1)]
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.stages(x).mean((2, 3)))

    def batch(self, generator):
        return torch.randn(2, 3, 16, 16, generator=generator), torch.randint(10, (2,), generator=generator)

    def loss(self, out, wanted):
        return f.cross_entropy(out, wanted)


class Dlrm(nn.Module):
    """A recommendation model, 8 million parameters: embedding tables divided among the ranks, whose vectors travel by
    all_to_all there and their gradients back, between two small multilayer perceptrons that every rank has."""

    TABLES, ROWS, WIDTH, SAMPLES = 8, 16384, 64, 512

    def __init__(self):
        super().__init__()
        own = self.TABLES // dist.get_world_size()
        self.tables = nn.ModuleList(nn.Embedding(self.ROWS, self.WIDTH) for _ in range(own))
        self.below = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, self.WIDTH), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(self.WIDTH * (self.TABLES + 1), 256), nn.ReLU(), nn.Linear(256, 1))
        divided = [name for name, _ in self.named_parameters() if name.startswith("tables")]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, divided)
        self.group, self.exchanges = None, True

    def exchanged(self, x):
        return all_to_all_single_autograd(x, None, None, self.group) if self.exchanges else x

    def forward(self, dense, ids):
        ranks = dist.get_world_size()
        ids = self.exchanged(ids.view(ranks, len(self.tables), self.SAMPLES))  # from every rank those of own tables
        vectors = torch.stack([t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        vectors = self.exchanged(vectors.contiguous()).view(self.TABLES, self.SAMPLES, self.WIDTH)
        return self.above(torch.cat([self.below(dense), *vectors], 1)).view(-1)

    def batch(self, generator):
        ids = torch.randint(self.ROWS, (self.TABLES, self.SAMPLES), generator=generator)
        dense = torch.randn(self.SAMPLES, 13, generator=generator)
        return (dense, ids), torch.randint(2, (self.SAMPLES,), generator=generator).float()

    def loss(self, out, wanted):
        return f.binary_cross_entropy_with_logits(out, wanted)


MODELS = {"gpt": Gpt, "resnet": ResNet, "dlrm": Dlrm}


class Replica:
    """A model with its optimizer; its gradients are exchanged by one backend."""

    def __init__(self, make, group):
        torch.manual_seed(0)
        self.inner = make()
        self.inner.group = group
        self.model = DistributedDataParallel(self.inner, process_group=group)
        self.optimizer = torch.optim.SGD(self.inner.parameters(), lr=0.01)
        self.generator = torch.Generator().manual_seed(dist.get_rank() + 1)
        self.losses = []

    def step(self, exchange=True):
        x, wanted = self.inner.batch(self.generator)
        x = x if isinstance(x, tuple) else (x,)
        self.inner.exchanges = exchange
        self.optimizer.zero_grad()
        with contextlib.nullcontext() if exchange else self.model.no_sync():
            loss = self.inner.loss(self.model(*x), wanted)
            loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def seconds_per_step(replica, steps, exchange=True):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        replica.step(exchange)
    return (time.perf_counter() - begin) / steps


def train(rank, options, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks, timeout=timedelta(minutes=5))
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "weft")}
    for name in options.models.split(","):
        replicas = {backend: Replica(MODELS[name], group) for backend, group in groups.items()}
        alone = Replica(MODELS[name], groups["gloo"])
        for replica in replicas.values():
            seconds_per_step(replica, 2)
        times = {"gloo": [], "weft": [], "alone": []}
        for _ in range(options.blocks):
            for backend, replica in replicas.items():
                times[backend].append(seconds_per_step(replica, options.steps))
            times["alone"].append(seconds_per_step(alone, options.steps, exchange=False))
        if rank == 0:
            print_model(name, replicas, times, options)
    dist.destroy_process_group()


def print_model(name, replicas, times, options):
    parameters = sum(p.numel() for p in replicas["weft"].inner.parameters())
    ms = {k: (min(v) * 1e3, statistics.median(v) * 1e3) for k, v in times.items()}
    print(f"{name}, {parameters / 1e6:.1f} million parameters, {options.ranks} ranks of one thread, {options.blocks} blocks of {options.steps} steps")
    print("| | ms per step, min / median | steps per second, best | exposed communication, min / median |\n|---|---|---|---|")
    for backend in ("gloo", "weft"):
        exposed = [max(0.0, ms[backend][i] - ms["alone"][i]) for i in range(2)]
        print(f"| {backend} | {ms[backend][0]:.1f} / {ms[backend][1]:.1f} | {1e3 / ms[backend][0]:.2f} | {exposed[0]:.1f} / {exposed[1]:.1f} |")
    print(f"| no exchange | {ms['alone'][0]:.1f} / {ms['alone'][1]:.1f} | {1e3 / ms['alone'][0]:.2f} | |")
    last = {k: r.losses[-1] for k, r in replicas.items()}
    print(f"loss after {len(replicas['weft'].losses)} steps: gloo {last['gloo']:.6f}, weft {last['weft']:.6f}\n", flush=True)
    if abs(last["gloo"] - last["weft"]) > 1e-3 * abs(last["gloo"]):
        sys.exit(f"{name}: the losses differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt,resnet,dlrm")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--port", type=int, default=29661)
    options = parser.parse_args()
    for name in options.models.split(","):
        if name not in MODELS:
            parser.error(f"--models {name}: there are {', '.join(MODELS)}")
    mp.spawn(train, (options, options.port), nprocs=options.ranks)


if __name__ == "__main__":
    main()
