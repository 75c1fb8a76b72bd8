# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The model that is trained is the model that is run: against openpi's results, and the engine against it.

The saved folder test/golden/pi05_trainer is compared in test_golden_models.py, without PyTorch.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from flashrt_core.golden import RunOptions, check_folder

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / 'test' / 'golden'

torch = pytest.importorskip(
    'torch', reason='PyTorch is no dependency: pip install -r training/requirements.txt'
)
sys.path.insert(0, str(ROOT / 'training'))
torch.set_num_threads(1)


def sizes_of(config: dict):
    from model import Sizes

    vision, language, expert, action = (config[part] for part in ('vision', 'language', 'expert', 'action'))
    return Sizes(
        image=vision['image_size'],
        patch=vision['patch_size'],
        vision_width=vision['hidden_size'],
        vision_layers=vision['num_layers'],
        vision_heads=vision['num_heads'],
        vision_mlp=vision['intermediate_size'],
        vocabulary=language['vocab_size'],
        width=language['hidden_size'],
        mlp=language['intermediate_size'],
        expert_width=expert['hidden_size'],
        expert_mlp=expert['intermediate_size'],
        layers=language['num_layers'],
        heads=language['num_heads'],
        head_dim=language['head_dim'],
        action_dim=action['action_dim'],
        horizon=action['action_horizon'],
    )


def test_weights_of_openpi_give_its_results():
    """Every tensor that inference reads has openpi's name and shape; values agree as the engine's do."""
    from golden import trace
    from model import Pi05

    folder = GOLDEN / 'pi05_tiny'
    model = Pi05(sizes_of(json.loads((folder / 'config.json').read_text()))).eval()
    weights = {name: torch.from_numpy(t) for name, t in load_file(folder / 'model.safetensors').items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not missing
    assert all('lm_head' in name or 'language_model.norm' in name for name in unexpected)

    saved = load_file(folder / 'case_00.safetensors')
    assert saved['in.image_masks'].all()
    inputs = [
        torch.from_numpy(saved[f'in.{name}']) for name in ('images_u8', 'token_ids', 'token_mask', 'noise')
    ]
    images, tokens, mask, noise = inputs
    made = trace(model, images, tokens.long(), mask.bool(), noise, int(saved['in.num_steps'][0]))
    compared = 0
    for name, tensor in made.items():
        expected = saved.get(f'out.{name}')
        if expected is None:
            continue
        actual = tensor.numpy()
        if name.startswith(('prefix_k', 'prefix_v')):
            there = made['prefix_mask'].numpy().astype(bool)
            actual, expected = (a.transpose(0, 2, 1, 3)[there] for a in (actual, expected))
        elif name == 'prefix_embeds':
            there = made['prefix_mask'].numpy().astype(bool)
            actual, expected = actual[there], expected[there]
        elif name == 'text_embeds':
            actual, expected = actual[mask.bool().numpy()], expected[mask.bool().numpy()]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5, err_msg=name)
        compared += 1
    assert compared >= 20


def test_the_engine_runs_what_is_trained(tmp_path):
    from golden import write_golden

    write_golden(tmp_path / 'made', seed=int(np.random.default_rng().integers(1 << 30)))
    report = check_folder(tmp_path / 'made', RunOptions())
    assert report.passed()
    assert len(report.comparisons) >= 40


def test_training_lowers_the_loss_of_the_flow():
    """Gradients reach every weight that inference reads; a few steps on one batch do what steps should."""
    from golden import SMALL
    from model import Pi05

    torch.manual_seed(1)
    model = Pi05(SMALL)
    batch = 4
    images = torch.rand(batch, 2, 3, SMALL.image, SMALL.image) * 2 - 1
    tokens = torch.randint(4, SMALL.vocabulary, (batch, 9))
    target = torch.rand(batch, SMALL.horizon, SMALL.action_dim)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(15):
        prefix = model.prefix(images, tokens, torch.ones_like(tokens, dtype=torch.bool))
        time, noise = torch.rand(2 * batch), torch.randn(2 * batch, SMALL.horizon, SMALL.action_dim)
        clean = target.repeat_interleave(2, 0)
        mixed = time[:, None, None] * noise + (1 - time[:, None, None]) * clean
        loss = (model.velocity(prefix, mixed, time) - (noise - clean)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        losses.append(loss.item())
        optimiser.step()
    unused = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    last = f'language_model.layers.{SMALL.layers - 1}.'
    assert all(
        last in name and ('o_proj' in name or 'mlp' in name or 'q_proj' in name or 'post_attention' in name)
        for name in unused
    ), unused
    assert np.mean(losses[-3:]) < 0.9 * np.mean(losses[:3])


def test_the_prompts_of_a_batch_are_those_the_policy_writes(tmp_path):
    from checkpoint import write_tokenizer
    from prompts import PromptTable

    from flashrt_core.prompt import StatePrompt, state_bins
    from flashrt_ros.tabletop.tasks import PROMPTS

    tokenizer = write_tokenizer(tmp_path, PROMPTS)
    table = PromptTable(tokenizer, PROMPTS, 7, 'cpu')
    states = np.random.default_rng(3).uniform(-1.1, 1.1, (len(PROMPTS), 7)).astype(np.float32)
    states[0] = [-1, 1, 0, -1e-9, 127 / 128, np.nan, np.inf]
    tokens, mask = table.tokens(torch.arange(len(PROMPTS)), torch.from_numpy(states))
    for sentence, state, row, there in zip(PROMPTS, states, tokens, mask, strict=True):
        written = tokenizer.prompt(StatePrompt().pieces(sentence, state_bins(state)))
        assert row[there].tolist() == written.tolist()


@pytest.fixture(scope='module')
def trained(tmp_path_factory) -> Path:
    """A checkpoint of a few steps on a data set of two episodes, in the small sizes."""
    from dataclasses import replace

    from checkpoint import write_tokenizer
    from golden import SMALL
    from safetensors.numpy import save_file
    from train import Settings, Trainer

    from flashrt_ros.tabletop.dataset_format import FORMAT_VERSION, SUMMARY, episode_path, write_statistics
    from flashrt_ros.tabletop.tasks import PROMPTS, TASKS

    data, out = tmp_path_factory.mktemp('data'), tmp_path_factory.mktemp('checkpoint')
    rng = np.random.default_rng(5)
    (data / 'episodes').mkdir()
    scenes, n = [1_000_000, 1_000_001], 3
    states, actions = rng.normal(size=(2, n, 7)), rng.normal(size=(2, n, 10, 7))
    for i, scene in enumerate(scenes):
        task = TASKS[i]
        tensors = {
            'images': rng.integers(0, 256, (n, 2, SMALL.image, SMALL.image, 3), dtype=np.uint8),
            'state': states[i].astype(np.float32),
            'actions': actions[i].astype(np.float32),
            'cubes': rng.normal(size=(n, 3, 3)).astype(np.float32),
        }
        texts = {'scene': scene, 'prompt': task.prompt(), **vars(task), 'detours': 0}
        metadata = {name: str(value) for name, value in texts.items()}
        save_file(tensors, episode_path(data, scene), metadata)
    write_statistics(data, states.reshape(-1, 7), actions.reshape(-1, 7))
    counts = {'seed': 1, 'tried': 2, 'kept': 2, 'observations': 2 * n}
    (data / SUMMARY).write_text(json.dumps({'format_version': FORMAT_VERSION, 'scenes': scenes, **counts}))
    tokenizer = write_tokenizer(out, PROMPTS)
    sizes = replace(SMALL, vocabulary=tokenizer.vocab_size, prompt_capacity=40)
    trainer = Trainer(data, tokenizer, Settings(steps=8, batch=4, warm_up=2), 'cpu', sizes)
    for number in range(8):
        losses = trainer.step(number)
        assert all(torch.isfinite(loss) for loss in losses)
    trainer.save(out, data, 1.0)
    return out


def test_a_trained_checkpoint_loads_and_computes_what_the_trainer_computed(trained):
    from model import Pi05
    from safetensors.torch import load_file as load_torch_file

    from flashrt_core import _core

    model = Pi05(sizes_of(json.loads((trained / 'config.json').read_text()))).eval()
    weights = load_torch_file(trained / 'model.safetensors')
    missing, unexpected = model.load_state_dict(weights, strict=False)
    last = f'language_model.layers.{model.sizes.layers - 1}.'
    assert missing
    assert all(last in name for name in missing)
    assert not unexpected
    rng = np.random.default_rng(9)
    images = rng.integers(0, 256, (2, model.sizes.image, model.sizes.image, 3), dtype=np.uint8)
    tokens = rng.integers(4, model.sizes.vocabulary, 20, dtype=np.int32)
    noise = rng.standard_normal((model.sizes.horizon, model.sizes.action_dim), dtype=np.float32)
    engine = _core.Engine(trained, cameras=2, prompt_capacity=40, steps=10)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)[None].float() / 255 * 2 - 1
    prefix = model.prefix(pixels, torch.from_numpy(tokens).long()[None], torch.ones(1, 20, dtype=torch.bool))
    expected = model.sample(prefix, torch.from_numpy(noise)[None], 10)[0].numpy()
    actual = engine.infer(images, tokens, noise)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)
    # Columns beyond the joints stay the noise that they were.
    np.testing.assert_array_equal(actual[:, 7:], noise[:, 7:])
