# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""GR00T N1.6 reproduces the saved results of the original implementation, stage by stage."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from flashrt_core.engine import native_core
from flashrt_core.errors import Error
from flashrt_core.golden import Comparison, RunOptions, check_folder

GOLDEN = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny'
STEPS, BLOCKS, LAYERS = 4, 8, 3

ONCE = {
    'vision.embeddings', 'vision.post_layernorm', 'vision.pixel_unshuffle', 'connector.output',
    'llm.inputs_embeds', 'llm.final_norm', 'head.vl_embeds', 'head.state_features', 'action_pred',
    *(f'cross_kv.block_0{block}.{part}' for block in (0, 2) for part in ('key', 'value')),
    *(f'{stack}.layer_0{layer}' for stack in ('vision', 'llm') for layer in range(LAYERS)),
}  # fmt: skip
PER_STEP = {
    'timestep', 'actions_in', 'actions_out', 'tau', 'action_features', 'time_proj', 'temb', 'dit_input',
    'dit_output', 'decoder_output', f'block_0{BLOCKS - 1}',
}  # fmt: skip
PER_BLOCK = {'', '.norm1', '.attn_out'}
ALL = (
    ONCE
    | {f'step_{step}.{name}' for step in range(STEPS) for name in PER_STEP}
    | {f'step_0.block_0{block}{name}' for block in range(BLOCKS) for name in PER_BLOCK}
)


def compared(options: RunOptions | None = None) -> list[Comparison]:
    """What the model gave; the folders inside hold what is around it."""
    report = check_folder(GOLDEN, options)
    assert report.passed()
    inner = {item.case.partition('/')[0] for item in report.comparisons if '/' in item.case}
    assert inner == {'policy', 'preproc', 'tokenizer', 'wire'}
    return [item for item in report.comparisons if '/' not in item.case]


def test_the_original_is_reproduced_stage_by_stage():
    comparisons = compared()
    inputs = {'in.image_mask', 'in.pixel_values', 'actions with memory reused'}
    assert {item.tensor for item in comparisons} - inputs == ALL
    # One row of a batch runs by itself, whatever it was padded to.
    cases = {item.case for item in comparisons}
    assert cases == {'case_00', 'case_01', 'case_02[0]', 'case_02[1]', 'case_03'}
    # Plain float32 reaches these; the bounds are wider.
    for item in comparisons:
        assert item.error <= (1e-5 if item.tensor == 'action_pred' else 1e-4), item


def test_bf16_is_no_further_off_than_twice_the_original_in_bf16():
    comparisons = compared(RunOptions(recipe='bf16'))
    bounded = {item.tensor for item in comparisons if item.bound} - {'in.pixel_values'}
    assert bounded == {
        'action_pred',
        'head.vl_embeds',
        'llm.final_norm',
        'connector.output',
        'step_0.dit_output',
    }


def test_recipes_without_bounds_are_refused():
    with pytest.raises(Error, match="recipe is 'fp8'; these saved results have bounds for f32 and bf16"):
        check_folder(GOLDEN, RunOptions(recipe='fp8'))


@pytest.fixture
def copy(tmp_path):
    """A folder with the model and its first case."""
    for name in ('config.json', 'model.safetensors', 'case_00.safetensors'):
        shutil.copy(GOLDEN / name, tmp_path / name)
    return tmp_path


def rewrite(path: Path, change) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize('tensor', ['llm.layer_01', 'step_2.decoder_output', 'cross_kv.block_02.key'])
def test_a_value_that_is_off_fails(copy, tensor):
    def change(tensors):
        tensors[tensor][0, -1, 0] += 1e-3

    rewrite(copy / 'case_00.safetensors', change)
    failed = [item.tensor for item in check_folder(copy).comparisons if not item.passed]
    # The last token of this conversation is text: no block that looks at images reads it.
    assert failed == ([] if tensor == 'cross_kv.block_02.key' else [tensor])


def test_what_is_not_compared_is_a_gap(copy):
    def change(tensors):
        tensors['step_0.surprise'] = np.zeros(3, np.float32)
        del tensors['action_pred']

    rewrite(copy / 'case_00.safetensors', change)
    report = check_folder(copy)
    assert not report.passed()
    assert {gap.what for gap in report.gaps} == {'step_0.surprise', 'action_pred'}


@pytest.mark.parametrize(
    ('name', 'value', 'message'),
    [
        ('in.input_ids', lambda ids: np.where(ids == 303, 301, ids), 'in.image_mask of row 0 does not'),
        ('in.noise', lambda noise: np.concatenate([noise, noise]), 'batches of different sizes'),
        ('in.state', lambda state: np.repeat(state, 2, 1), 'in.state holds 2 time steps'),
    ],
)
def test_inputs_that_do_not_fit_are_named(copy, name, value, message):
    def change(tensors):
        tensors[name] = value(tensors[name])

    rewrite(copy / 'case_00.safetensors', change)
    with pytest.raises(Error, match=message):
        check_folder(copy)


# ---- what conversations, pictures and embodiments do to the actions


def engine(**options):
    return native_core().Engine(
        str(GOLDEN), cameras=2, prompt_capacity=24, markup_rows=[5, 3], embodiment_slot=0, **options
    )


def inputs():
    case = load_file(GOLDEN / 'case_01.safetensors')
    images = np.stack([case[f'in.image_u8.{view}'][:, :56].transpose(1, 2, 0) for view in range(2)])
    ids = case['in.input_ids'][0].astype(np.int32)
    keep = np.ones(len(ids), bool)
    for view in range(2):  # 56 x 56 pixels make four rows, not six
        keep[np.flatnonzero(ids == 301)[view * 6 : view * 6 + 2]] = False
    return [np.ascontiguousarray(images), ids[keep], case['in.noise'][0], case['in.state'][0, 0]]


def test_everything_that_the_model_is_given_matters():
    model = engine()
    given = inputs()
    first = model.infer(*given)

    def differs(index, change):
        changed = [array.copy() for array in given]
        change(changed[index])
        return np.abs(model.infer(*changed) - first).max() > 1e-6

    def set_patch(images):
        images[1, 14:28, 42:] ^= 255

    def swap_cameras(images):
        images[:] = images[::-1].copy()

    def set_token(at):
        def change(tokens):
            tokens[at] = 42

        return change

    def add_to(at):
        def change(values):
            values[at] += 0.5

        return change

    assert differs(0, set_patch)
    assert differs(0, swap_cameras)
    assert differs(1, set_token(0))  # the prompt
    assert differs(1, set_token(-1))  # behind the last image
    assert differs(2, add_to((9, 17)))
    assert differs(3, add_to(19))
    np.testing.assert_array_equal(model.infer(*given), first)


def test_a_shorter_prompt_after_a_longer_one_leaves_nothing_behind():
    images, tokens, noise, state = inputs()
    model = engine(keep_values=True)
    model.infer(images, tokens, noise, state)
    shorter = model.infer(images, tokens[5:], noise, state)
    np.testing.assert_array_equal(engine().infer(images, tokens[5:], noise, state), shorter)


def test_an_embodiment_must_be_chosen():
    with pytest.raises(Error, match='embodiment slot -1, it has slots 0 to 4; name the one of the robot'):
        native_core().Engine(str(GOLDEN), cameras=1, prompt_capacity=24)
    with pytest.raises(Error, match='embodiment slot 1: pi05 has no embodiments'):
        native_core().Engine(str(GOLDEN.parent / 'pi05_tiny'), cameras=1, embodiment_slot=1)


def test_embodiments_act_differently():
    given = inputs()
    first = engine().infer(*given)
    other = native_core().Engine(
        str(GOLDEN), cameras=2, prompt_capacity=24, markup_rows=[5, 3], embodiment_slot=1
    )
    assert np.abs(other.infer(*given) - first).max() > 1e-3


def test_packed_weights_fit_any_number_of_cameras_but_one_embodiment(tmp_path):
    core = native_core()
    file = tmp_path / 'packed.safetensors'
    core.pack_weights(str(GOLDEN), file, recipe='bf16', embodiment_slot=0)
    given = inputs()
    expected = engine(recipe='bf16').infer(*given)
    np.testing.assert_array_equal(engine(recipe='bf16', packed=file).infer(*given), expected)
    with pytest.raises(Error, match=r'was packed from weights \w+ slot 0, embodiment slot 1 is asked for'):
        core.Engine(str(GOLDEN), cameras=1, prompt_capacity=24, recipe='bf16', packed=file, embodiment_slot=1)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'guided': True}, 'groot_n16 does not continue chunks'),
        ({'max_image_bytes': 100}, 'groot_n16 takes images that are resized already'),
        ({'image_sizes': [(56, 56)]}, 'image sizes: 1, expected one per camera, 2'),
        (
            {'image_sizes': [(56, 56), (56, 50)]},
            'image of camera 1: 56 x 50 pixels, expected multiples of 28',
        ),
        ({'horizon': 33}, 'horizon: 33, the table of action positions has 32'),
    ],
)
def test_programs_that_there_are_not_are_refused(options, message):
    with pytest.raises(Error, match=message):
        engine(**options)


def test_pictures_of_other_sizes_are_refused():
    images, *rest = inputs()
    with pytest.raises(
        Error, match='images: 14112 bytes were given, this engine takes 2 cameras x 56 x 56 x 3'
    ):
        engine().infer(np.ascontiguousarray(images[:, :42]), *rest)
    tokens, *others = rest
    fewer = np.delete(tokens, np.flatnonzero(tokens == 301)[-3:])  # 28 x 28 pixels make one row
    sized = engine(image_sizes=[(56, 56), (28, 28)])
    with pytest.raises(Error, match='takes 1 cameras x 56 x 56 x 3, 1 cameras x 28 x 28 x 3 bytes'):
        sized.infer(images, fewer, *others)
