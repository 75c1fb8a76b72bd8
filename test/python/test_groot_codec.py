# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""States and actions of GR00T: reference values, both ways, and what a checkpoint may ask in vain."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from groot_files import ACTION, HORIZON, GrootFiles
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flashrt_core import Error
from flashrt_core.golden import check_folder
from flashrt_core.groot.action_codec import ActionCodec, action_codec
from flashrt_core.groot.embodiment import Embodiment, read_embodiment
from flashrt_core.groot.poses import compose
from flashrt_core.groot.scaling import MeanStd, Range
from flashrt_core.groot.state_codec import StateCodec, state_codec

FOLDER = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny' / 'policy'
NUMBERS = st.floats(-10, 10, width=32)


@pytest.fixture
def files() -> GrootFiles:
    return GrootFiles()


def load(files: GrootFiles, folder: Path) -> Embodiment:
    return read_embodiment(files.write(folder), 'robot')


def codecs(embodiment: Embodiment) -> tuple[StateCodec, ActionCodec]:
    states = state_codec(embodiment)
    return states, action_codec(embodiment, states)


def chunk(value: float) -> np.ndarray:
    """The same in all columns, but for the rotation of the tool: it needs two directions."""
    model_actions = np.full((10, 18), value, np.float32)
    model_actions[:, 6:12] = 1, -1, -1, -1, 1, -1
    return model_actions


def upright(*arm: float) -> np.ndarray:
    """A state with the tool at the origin, not turned."""
    return np.r_[arm, 0, 0, 0, np.eye(3)[:2].ravel(), 0, 0, 0]


def test_the_original_is_reproduced():
    report = check_folder(FOLDER)
    assert report.passed()
    assert len(report.comparisons) == 19
    assert max(item.error for item in report.comparisons) < 2e-7


def test_an_embodiment(files, tmp_path):
    embodiment = load(files, tmp_path)
    assert (embodiment.tag, embodiment.slot, embodiment.horizon) == ('robot', 3, HORIZON)
    assert embodiment.modalities.video.keys == ('front', 'wrist')
    states, actions = codecs(embodiment)
    assert (states.state_dim, states.width) == (15, 17)
    assert actions.action_dim == 15
    assert states.columns['gripper'] == slice(12, 13)
    assert actions.columns['base'] == slice(13, 15)


# ---- the state


def test_state_by_hand(files, tmp_path):
    states, _ = codecs(load(files, tmp_path))
    state = np.zeros(15)
    state[:3] = -1.5, 0.5, 9.0  # ends of [-1.5, 2.5] and beyond
    state[12] = 4.5  # gripper: (4.5 - 0.5) / 2, not clipped
    state[13:] = 0.0, math.pi / 2
    encoded = states.encode(state)
    assert (encoded.dtype, encoded.shape) == (np.float32, (20,))
    np.testing.assert_allclose(encoded[:3], [-1, 0, 1])
    np.testing.assert_allclose(encoded[12:], [2, 0, 1, 1, 0, 0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(states.unclipped(state)[:3], [-1, 0, 4.25])
    assert states.unclipped(state)[13:].tolist() == [0, 0]  # angles have no range


def test_angles_are_numbers_where_the_checkpoint_says_so(files, tmp_path):
    files.kwargs['apply_sincos_state_encoding'] = False
    states, _ = codecs(load(files, tmp_path))
    assert states.width == 15
    np.testing.assert_allclose(states.encode(np.full(15, 0.5))[13:15], 0)


def test_percentiles(files, tmp_path):
    files.kwargs['use_percentiles'] = True
    states, actions = codecs(load(files, tmp_path))
    np.testing.assert_allclose(states.encode(np.full(15, 2.0))[:3], 1)
    decoded = actions.decode(chunk(1), upright(0, 0, 0))
    np.testing.assert_allclose(decoded[:, 13:], 2.0)
    # Relative keys keep to min and max, step by step.
    np.testing.assert_allclose(decoded[:, 0], 2.5 + 0.1 * np.arange(HORIZON))


@given(arrays(float, (3, 5), elements=NUMBERS), arrays(float, 5, elements=NUMBERS), st.floats(0.01, 50))
def test_a_range_goes_both_ways(x, low, width):
    scaler = Range(low, low + width)
    inside = np.clip(x, low, low + width)
    np.testing.assert_allclose(scaler.unnormalise(scaler.normalise(inside)), inside, atol=1e-9)
    assert (np.abs(scaler.normalise(x)) <= 1).all()
    ends = scaler.unnormalise(np.array([[-7.0] * 5, [7.0] * 5]))
    np.testing.assert_allclose(ends, [low, low + width])


@given(arrays(float, 5, elements=NUMBERS), arrays(float, 5, elements=NUMBERS))
def test_a_column_without_width_is_zero_and_comes_back_as_it_was(x, low):
    scaler = Range(low, low + 1e-6 * np.abs(low))
    assert (scaler.normalise(x) == 0).all()
    np.testing.assert_allclose(scaler.unnormalise(x), low, rtol=2e-6)


@given(arrays(float, 5, elements=NUMBERS), st.floats(0.01, 50))
def test_mean_and_deviation_go_both_ways(x, std):
    scaler = MeanStd(np.arange(5.0), np.array([std, 0, std, 0, std]))
    np.testing.assert_allclose(scaler.unnormalise(scaler.normalise(x)), x, atol=1e-9)
    assert scaler.normalise(x)[1] == x[1]


# ---- actions


def test_relative_columns_count_from_the_state(files, tmp_path):
    _, actions = codecs(load(files, tmp_path))
    state = upright(1, 2, 3)
    decoded = actions.decode(chunk(0), state)
    assert (decoded.dtype, decoded.shape) == (np.float64, (HORIZON, 15))
    middle = 0.5 + 0.1 * np.arange(HORIZON)[:, None]
    np.testing.assert_allclose(decoded[:, :3], middle + [1, 2, 3])
    np.testing.assert_allclose(decoded[:, 12], 0.5)  # mean
    np.testing.assert_allclose(decoded[:, 13:], 0.5)
    np.testing.assert_allclose(actions.decode(chunk(3), state)[:, 12], 3 * 2 + 0.5)


def test_range_of_the_training_data(files, tmp_path):
    _, actions = codecs(load(files, tmp_path))
    found = actions.range()
    assert np.isnan(found[:, :12]).all()
    np.testing.assert_allclose(found[:, 12:], [[-3.5, -1.5, -1.5], [4.5, 2.5, 2.5]])


def test_six_numbers_without_direction_are_refused(files, tmp_path):
    _, actions = codecs(load(files, tmp_path))
    with pytest.raises(Error, match="action key 'tool': the six numbers of a rotation hold no two dir"):
        actions.decode(chunk(0), np.zeros(15))


# ---- poses


def rotation(vector: np.ndarray) -> np.ndarray:
    """The exponential of the cross product matrix, by its series."""
    x, y, z = vector
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    result = term = np.eye(3)
    for k in range(1, 60):
        term = term @ cross / k
        result = result + term
    return result


def turned(vector: np.ndarray) -> np.ndarray:
    """As six numbers."""
    return rotation(vector)[:2].ravel()


VECTORS = arrays(float, 3, elements=st.floats(-2.5, 2.5))
POSITIONS = arrays(float, 3, elements=NUMBERS)


@given(POSITIONS, VECTORS, POSITIONS, VECTORS)
def test_poses_are_composed_as_transformations(p, a, q, b):
    wanted_p, wanted_r = rotation(a) @ q + p, rotation(a) @ rotation(b)
    found = compose(np.r_[p, turned(a)], np.r_[q, turned(b)][None], 'XYZ_ROT6D')
    np.testing.assert_allclose(found, [np.r_[wanted_p, wanted_r[:2].ravel()]], atol=1e-9)
    found = compose(np.r_[p, a], np.r_[q, b][None], 'XYZ_ROTVEC')
    np.testing.assert_allclose(found[0, :3], wanted_p, atol=1e-9)
    np.testing.assert_allclose(rotation(found[0, 3:]), wanted_r, atol=1e-7)
    assert np.linalg.norm(found[0, 3:]) <= math.pi + 1e-9


@given(POSITIONS, VECTORS, arrays(float, (HORIZON, 6), elements=st.floats(-1, 1)))
def test_composition_can_be_undone(p, a, steps):
    base = np.r_[p, a]
    inverse = np.r_[-rotation(a).T @ p, -a]
    there = compose(base, steps, 'XYZ_ROTVEC')
    np.testing.assert_allclose(compose(inverse, there, 'XYZ_ROTVEC'), steps, atol=1e-7)


@pytest.mark.parametrize('angle', [0.0, 1e-12, 1e-6, 1.0, math.pi - 1e-9, math.pi, math.pi + 1e-6])
@pytest.mark.parametrize('axis', [[1, 0, 0], [0, -1, 0], [0, 0, 1], [0.6, 0, -0.8], [0.36, 0.48, 0.8]])
def test_rotation_vectors_of_any_angle(angle, axis):
    half = angle / 2 * np.array(axis, float)
    found = compose(np.r_[0, 0, 0, half], np.r_[0, 0, 0, half][None], 'XYZ_ROTVEC')[0, 3:]
    np.testing.assert_allclose(rotation(found), rotation(2 * half), atol=1e-9)
    if angle <= 1:
        np.testing.assert_allclose(found, 2 * half, atol=1e-12)


# ---- refusals


def set_kwarg(name: str, value: object) -> Callable[[GrootFiles], None]:
    return lambda files: files.kwargs.update({name: value})


def set_modality(kind: str, **fields: object) -> Callable[[GrootFiles], None]:
    return lambda files: files.modalities[kind].update(fields)


def set_action(index: int, **fields: object) -> Callable[[GrootFiles], None]:
    return lambda files: files.modalities['action']['action_configs'][index].update(fields)


def set_statistics(group: str, key: str, kind: str, value: object) -> Callable[[GrootFiles], None]:
    return lambda files: files.statistics['robot'][group][key].update({kind: value})


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda f: f.processor.update(processor_class='Gr00tN1d7Processor'), "is 'Gr00tN1d7Processor'"),
        (set_kwarg('use_albumentations', False), 'use_albumentations is false; only true is implemented'),
        (set_kwarg('clip_outliers', False), 'clip_outliers is false; only true is implemented'),
        (set_kwarg('use_relative_action', False), 'use_relative_action is false; only true is implemented'),
        (set_kwarg('use_percentiles', None), "field 'use_percentiles' is None, needed true or false"),
        (set_kwarg('crop_fraction', 1.5), 'the crop keeps 1.5 of a picture'),
        (set_kwarg('shortest_image_edge', None), "field 'image_crop_size' is None, needed a list"),
        (set_kwarg('max_state_dim', 16), 'its state has 17 encoded columns, the model takes 16'),
        (set_kwarg('max_action_dim', 14), '4 rows and 15 columns, the model gives 10 and 14'),
        (set_kwarg('max_action_horizon', 3), '4 rows and 15 columns, the model gives 3 and 18'),
        (set_modality('state', delta_indices=[-1]), r'state.delta_indices is \[-1\]; only increasing steps'),
        (set_modality('state', delta_indices=[]), r'state.delta_indices is \[\]; only increasing steps'),
        (set_modality('action', delta_indices=[0, 2, 4, 6]), r'action.delta_indices is .*; only 0, 1, 2'),
        (set_modality('action', delta_indices=[]), r'action.delta_indices is \[\]'),
        (set_modality('video', delta_indices=[0, 1]), 'video.* increasing steps that end with 0'),
        (set_modality('video', delta_indices=[-5, -9, 0]), 'increasing steps that end with 0'),
        (set_modality('language', modality_keys=['a', 'b']), r'language.delta_indices is .* with one key'),
        (set_modality('action', action_configs=None), 'action_configs is null; only one per key'),
        (set_modality('action', action_configs=[]), '0 action_configs for the keys'),
        (set_modality('action', sin_cos_embedding_keys=['base']), 'sin_cos_embedding_keys of actions'),
        (set_modality('action', mean_std_embedding_keys=['relative_arm']), 'a RELATIVE key in mean_std'),
        (set_modality('state', mean_std_embedding_keys=['leg']), r"\['leg'\] are to be encoded, the keys"),
        (set_modality('video', modality_keys=['front', 'front']), 'at least one key and none twice'),
        (set_action(3, rep='DELTA'), "action key 'base': rep DELTA is not implemented"),
        (set_action(1, format='DEFAULT'), "action key 'tool': a RELATIVE pose of type EEF in format DEFAULT"),
        (set_action(1, format='XYZ_QUAT'), "field 'format' is 'XYZ_QUAT', needed one of"),
        (set_action(1, format='XYZ_ROTVEC'), "'tool' has 9 columns, state key 'tool' .* needed 6 of both"),
        (set_action(0, state_key=None), "counts from state key 'relative_arm'; the state has"),
        (set_action(0, state_key='tool'), "has 3 columns, state key 'tool' that it counts from 9"),
        (set_statistics('state', 'arm', 'min', [1, 1, 3]), "'min' .* the first must not be larger"),
        (set_statistics('state', 'arm', 'max', [3, 3]), r"'min' \[3\] and 'max' \[2\] must have the same"),
        (set_statistics('state', 'arm', 'min', [0, 0, math.nan]), "field 'min' is .* needed finite numbers"),
        (set_statistics('state', 'arm', 'min', []), "arm: 'min' is empty"),
        (set_statistics('relative_action', 'tool', 'min', [[0] * 9] * 3), "'min' .* must have the same"),
        (lambda f: f.statistics['robot'].pop('relative_action'), "field 'relative_action' is missing"),
        (lambda f: f.statistics['robot']['action'].pop('base'), "field 'base' is missing"),
        (lambda f: f.statistics.pop('robot'), "'robot' is not in statistics.json of .*; available are none"),
        (lambda f: f.slots.clear(), "'robot' is not in embodiment_id.json of .*; available are none"),
        (lambda f: f.slots.update(robot=-1), "field 'robot' is -1, needed a whole number"),
    ],
)  # fmt: skip
def test_what_is_not_implemented_or_does_not_fit_is_refused_by_name(files, tmp_path, change, message):
    codecs(load(files, tmp_path))
    change(files)
    with pytest.raises(Error, match=message):
        codecs(load(files, tmp_path))


def test_a_relative_key_needs_a_row_of_statistics_for_every_step(files, tmp_path):
    relative = files.statistics['robot']['relative_action']['relative_arm']
    relative |= {kind: rows[:3] for kind, rows in relative.items()}
    with pytest.raises(Error, match=r'shape \[3, 3\], needed one row for each of 4 steps, with 3 columns'):
        codecs(load(files, tmp_path))


def test_an_unknown_tag_is_refused_with_those_that_are_there(files, tmp_path):
    files.write(tmp_path)
    with pytest.raises(Error, match=r"'arm' is not in processor_config.json, .*; available are \['robot'\]"):
        read_embodiment(tmp_path, 'arm')


# embodiment_id.json may leave out tags that every version knows.
def test_a_known_tag_has_its_slot(files, tmp_path):
    files.kwargs['modality_configs']['gr1'] = files.modalities
    files.statistics['gr1'] = files.statistics['robot']
    assert read_embodiment(files.write(tmp_path), 'gr1').slot == 20


def test_older_files_say_the_crop_in_pixels(files, tmp_path):
    files.kwargs.update(
        shortest_image_edge=None, crop_fraction=None, image_crop_size=[230, 230], image_target_size=[240, 240]
    )
    processor = load(files, tmp_path).processor
    assert (processor.shortest_side, processor.crop_fraction) == (240, 230 / 240)
    files.kwargs['image_crop_size'] = [230, 200]
    with pytest.raises(Error, match=r'image_crop_size is \[230, 200\], needed two equal sides'):
        load(files, tmp_path)


def test_an_absolute_pose_is_columns_like_any_others(files, tmp_path):
    files.modalities['action']['action_configs'][1] = {
        'rep': 'ABSOLUTE', 'type': 'EEF', 'format': 'DEFAULT', 'state_key': None,
    }  # fmt: skip
    embodiment = load(files, tmp_path)
    assert embodiment.modalities.action_configs['tool'].is_end_effector
    _, actions = codecs(embodiment)
    np.testing.assert_allclose(actions.decode(np.zeros((10, 18)), np.zeros(15))[:, 3:12], 0.5)


@given(arrays(np.float32, (10, sum(ACTION.values()) + 3), elements=st.floats(-3, 3, width=32)))
def test_padding_and_rows_beyond_the_chunk_change_nothing(tmp_path_factory, model_actions):
    _, actions = codecs(load(GrootFiles(), tmp_path_factory.getbasetemp()))
    state = upright(1, 2, 3)
    model_actions[:, 6:12] = chunk(0)[:, 6:12]
    other = model_actions.copy()
    other[HORIZON:] = 7
    other[:, 15:] = 7
    np.testing.assert_array_equal(actions.decode(model_actions, state), actions.decode(other, state))
