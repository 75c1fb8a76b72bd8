# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Times GR00T N1.6 in PyTorch (BF16, torch.compile, one CUDA graph): what `flashrt bench` is compared with.

    python test/benchmark/groot_pytorch_comparison.py [--horizon 16 50] [--runs 1000] [--json FILE]

"replay" is the device's clock around the graph, "whole call" the host's, from pictures in its memory to
actions in its memory. groot_torch.py says what is computed before. Prints a line of JSON per horizon.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch
from groot_torch import TINY, Groot, Sizes, random_groot
from torch import Tensor


class Inference:
    """The stages one behind the other, on inputs whose place is fixed."""

    def __init__(self, model: Groot, device: str, compiled: bool, mode: str) -> None:
        c = self.c = model.c
        generator = torch.Generator().manual_seed(1)
        pictures = (c.cameras, c.image, c.image, 3)
        self.host = {
            'pictures': torch.randint(0, 256, pictures, dtype=torch.uint8, generator=generator),
            'state': torch.randn(1, c.action_dim, generator=generator),
            'noise': torch.randn(c.horizon, c.action_dim, generator=generator),
        }
        if device == 'cuda':
            self.host = {name: value.pin_memory() for name, value in self.host.items()}
        self.inputs = {name: value.to(device) for name, value in self.host.items()}
        tokens = torch.randint(0, c.vocabulary, (c.prompt + sum(c.markup),), generator=generator)
        self.tokens = tokens.to(device)

        def prepared(stage: Callable) -> Callable:
            return torch.compile(stage, mode=mode, dynamic=False, fullgraph=True) if compiled else stage

        self.see, self.understand = prepared(model.see), prepared(model.understand)
        self.denoise_once = prepared(model.denoise)
        self.times = [model.times_of(step) for step in range(c.steps)]

    def run(self) -> Tensor:
        return self.denoise(*self.backbone(self.see(self.inputs['pictures'])))

    def backbone(self, features: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        return self.understand(features, self.tokens, self.inputs['state'])

    def denoise(self, state: Tensor, context: list[tuple[Tensor, Tensor]]) -> Tensor:
        actions = self.inputs['noise']
        for times in self.times:
            actions = self.denoise_once(actions, state, context, times)
        return actions

    def stages(self) -> dict[str, Callable[[], object]]:
        features = self.see(self.inputs['pictures'])
        backbone = self.backbone(features)
        return {
            'vision and connector': lambda: self.see(self.inputs['pictures']),
            'language model and state': lambda: self.backbone(features),
            'denoise': lambda: self.denoise(*backbone),
        }

    def upload(self) -> None:
        for name, value in self.host.items():
            self.inputs[name].copy_(value, non_blocking=True)


def captured(work: Callable[[], object]) -> tuple[Callable[[], None], object]:
    """Its replay, and the result that each replay writes anew."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph.replay, result


def percentiles(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100, method='inclusive')
    return {
        'median': round(statistics.median(times), 4),
        'p99': round(cuts[98], 4),
        'max': round(max(times), 4),
    }


def replay_times(replay: Callable[[], None], warmup: int, runs: int) -> list[float]:
    for _ in range(warmup):
        replay()
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def call_times(call: Callable[[], object], warmup: int, runs: int) -> list[float]:
    for _ in range(warmup):
        call()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def measure_on_gpu(inference: Inference, warmup: int, runs: int) -> dict:
    begin = time.perf_counter()
    expected = inference.run()
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - begin
    replay, actions = captured(inference.run)
    received = torch.empty(actions.shape, dtype=actions.dtype).pin_memory()

    def whole_call() -> None:
        inference.upload()
        replay()
        received.copy_(actions, non_blocking=True)
        torch.cuda.synchronize()

    whole_call()
    if not torch.allclose(received, expected.cpu(), atol=1e-2, rtol=1e-2):
        raise SystemExit(f'the graph computes other actions: {(received - expected.cpu()).abs().max()} apart')
    report = {
        'compile_s': round(compile_s, 1),
        'finite': bool(torch.isfinite(received).all()),
        'replay_ms': percentiles(replay_times(replay, warmup, runs)),
        'whole_call_ms': percentiles(call_times(whole_call, warmup, runs)),
        'stages_ms': {},
    }
    for name, work in inference.stages().items():
        stage_replay, _ = captured(work)
        report['stages_ms'][name] = percentiles(replay_times(stage_replay, 20, 100))['median']
    report['memory_gb'] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return report


def measure_on_cpu(inference: Inference, warmup: int, runs: int) -> dict:
    actions = inference.run()
    return {
        'finite': bool(torch.isfinite(actions).all()),
        'whole_call_ms': percentiles(call_times(inference.run, warmup, runs)),
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda')
    parser.add_argument('--tiny', action='store_true', help='a few channels, to try the program')
    parser.add_argument('--eager', action='store_true', help='without torch.compile')
    parser.add_argument('--mode', default='default', help='of torch.compile, e.g. max-autotune-no-cudagraphs')
    parser.add_argument('--cameras', type=int, default=2)
    parser.add_argument('--horizon', type=int, nargs='+', default=[16, 50])
    parser.add_argument('--warmup', type=int, default=50)
    parser.add_argument('--runs', type=int, default=1000)
    parser.add_argument('--json', help='append the lines to this file')
    arguments = parser.parse_args()
    for horizon in arguments.horizon:
        sizes = replace(TINY if arguments.tiny else Sizes(), cameras=arguments.cameras, horizon=horizon)
        torch._dynamo.reset()
        model = random_groot(sizes, arguments.device, torch.bfloat16)
        inference = Inference(model, arguments.device, not arguments.eager, arguments.mode)
        measure = measure_on_gpu if arguments.device == 'cuda' else measure_on_cpu
        name = torch.cuda.get_device_name() if arguments.device == 'cuda' else 'cpu'
        line = json.dumps(
            {
                'device': name,
                'torch': torch.__version__,
                'compiled': False if arguments.eager else arguments.mode,
                'type': 'bf16',
                **measure(inference, arguments.warmup, arguments.runs),
                'sizes': asdict(sizes),
            }
        )
        print(line, flush=True)
        if arguments.json:
            with open(arguments.json, 'a', encoding='utf-8') as file:
                file.write(line + '\n')
        del model, inference


if __name__ == '__main__':
    main()
