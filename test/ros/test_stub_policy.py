# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The stub policy: motion inside the limits, the same twice, faults when told, prefixes as in chunking."""

from dataclasses import replace

import numpy as np
import pytest
from fake_policy import ARM, NODE, VELOCITY, groot_values, parameters
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core.errors import Error
from flashrt_core.rtc import prefix_weights
from flashrt_core.types import ActionPrefix, CameraFrame, Observation
from flashrt_ros.load import check_fit, prepare
from flashrt_ros.parameters import read_parameters
from flashrt_ros.stub_policy import StubPolicy, StubSettings

SETTINGS = StubSettings(horizon=12, latency_ms=50, jitter_ms=10)
REST = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.04])
IMAGES = {slot: np.full((4, 6, 3), 7, np.uint8) for slot in ('base', 'wrist')}


def observed(at_s: float = 1.0, state: np.ndarray = REST, prompt_id: int = 1) -> Observation:
    return Observation(IMAGES, state, {'base': round(at_s * 1e9)}, prompt_id)


def make(settings: StubSettings = SETTINGS, **changes: object) -> tuple[StubPolicy, list[float]]:
    """A policy with its first prompt, and how long it waited."""
    waited: list[float] = []
    policy = StubPolicy(parameters(**changes), settings, waited.append)
    policy.set_prompt('go')
    return policy, waited


def test_it_passes_the_checks_of_configuring():
    policy = StubPolicy(parameters(), SETTINGS, lambda seconds: None)
    policy.inject('throw')  # not spent on the trial
    check_fit(policy, parameters())
    prompt_id = prepare(policy, parameters())
    with pytest.raises(Error, match='told to fail'):
        policy.infer(observed(prompt_id=prompt_id))


@pytest.mark.parametrize('changes', [{}, VELOCITY])
def test_two_runs_give_the_same_chunks_and_chunks_of_one_run_differ(changes: dict):
    policy, waited = make(**changes)
    runs = []
    for _ in range(2):
        policy.reset()
        runs.append([policy.infer(observed(1 + i / 20)).actions for i in range(5)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert waited[:5] == waited[5:]
    assert len(set(waited[:5])) == 5
    assert all(0.04 <= seconds <= 0.06 for seconds in waited)
    assert np.abs(np.diff(runs[0], axis=0)).max() > 1e-4


@given(
    state=st.lists(st.floats(-2, 2), min_size=6, max_size=6),
    at_s=st.lists(st.floats(0.1, 1e6), min_size=1, max_size=4),
)
def test_positions_stay_inside_the_limits_from_every_state(state: list[float], at_s: list[float]):
    settings = parameters()
    policy, _ = make(replace(SETTINGS, noise=0.2))
    for moment in at_s:
        actions = policy.infer(observed(moment, np.array([*state, 0.04]))).actions
        assert (actions >= settings.joint_lower).all()
        assert (actions <= settings.joint_upper).all()


def test_a_chunk_begins_at_the_robot_moves_and_returns_to_the_motion():
    policy, _ = make(replace(SETTINGS, noise=0.0))
    first = policy.infer(observed()).actions
    np.testing.assert_allclose(first[0], REST, atol=0.05)
    assert np.abs(first[-1] - REST).max() > 0.1
    assert np.abs(np.diff(first, axis=0)).max() < 0.05  # rad in 50 ms: smooth
    pushed = policy.infer(observed(1.0, REST + 0.1)).actions
    gaps = np.abs(pushed - first)[:, 0]
    assert gaps[0] == pytest.approx(0.1 * np.exp(-0.05 / 0.5), rel=1e-3)
    assert (np.diff(gaps) < 0).all()


def test_velocities_are_those_between_the_positions():
    still, _ = make(replace(SETTINGS, noise=0.0))
    moving, _ = make(replace(SETTINGS, noise=0.0), **VELOCITY)
    positions, velocities = still.infer(observed()).actions, moving.infer(observed()).actions
    np.testing.assert_allclose(REST[:6] + 0.05 * np.cumsum(velocities[:, :6], 0), positions[:, :6], atol=1e-5)
    np.testing.assert_allclose(velocities[:, 6], positions[:, 6], atol=1e-6)  # a gripper holds a position


def test_grippers_speak_the_unit_of_the_model():
    changes = {'grippers__model_one': ['closed']}
    policy, _ = make(**changes)
    state = np.array([*REST[:6], 0.5])  # as the model means it
    actions = policy.infer(observed(state=state)).actions[:, 6]
    assert 0 <= actions.min() < 0.5 < actions.max() <= 1


@pytest.mark.parametrize('fault', ['throw', 'nan', 'outside', 'spike'])
def test_a_fault_lasts_for_as_many_inferences_as_told(fault: str):
    settings = parameters()
    policy, waited = make()
    policy.inject(fault, 2, 0.8 if fault == 'spike' else 0.0)
    for is_faulty in (True, True, False):
        if fault == 'throw' and is_faulty:
            with pytest.raises(Error, match='told to fail'):
                policy.infer(observed())
            continue
        actions = policy.infer(observed()).actions
        assert np.isnan(actions).any() == (fault == 'nan' and is_faulty)
        beyond = np.nanmax(actions - settings.joint_upper) > 0.1
        assert beyond == (fault == 'outside' and is_faulty)
        assert (waited[-1] > 0.8) == (fault == 'spike' and is_faulty)


def test_faults_can_be_called_off():
    policy, _ = make()
    policy.inject('throw', 100)
    policy.inject('throw', 0)
    policy.infer(observed())


@pytest.mark.parametrize(
    'arguments', [('jump',), ('throw', -1), ('throw', 1, 0.5), ('spike',), ('spike', 1, -1.0)]
)
def test_a_fault_that_makes_no_sense_is_refused(arguments: tuple):
    policy, _ = make()
    with pytest.raises(Error, match=f'fault.*{arguments[0]}'):
        policy.inject(*arguments)


@given(st.integers(0, 11), st.integers(1, 12), st.integers(0, 11), st.sampled_from(['linear', 'exp', 'ones']))
def test_a_guided_prefix_holds_rows_by_the_weights_of_the_guidance(
    delay: int, rows: int, horizon: int, schedule: str
):
    if delay > rows:
        delay, rows = rows, max(delay, 1)
    rtc = {
        'rtc_schedule': schedule,
        'rtc_execution_horizon': horizon + 1,
        'rtc_max_weight': 5.0,
        'mode': 'rtc',
    }
    policy, _ = make(**{f'chunk__{name}': value for name, value in rtc.items()})
    fresh = policy.infer(observed()).model_actions
    policy.reset()
    previous = np.linspace(-0.5, 0.5, rows)[:, np.newaxis] * np.ones((1, 7), np.float32)
    chunk = policy.infer(observed(), prefix=ActionPrefix(previous.astype(np.float32), delay)).model_actions
    weights = np.zeros((12, 1))
    weights[:, 0] = prefix_weights(schedule, delay, horizon + 1, rows, 12)
    whole = fresh.copy()
    whole[:rows, :7] = previous
    np.testing.assert_allclose(chunk, weights * whole + (1 - weights) * fresh, atol=1e-6)


@given(st.integers(0, 11))
def test_a_hard_prefix_is_repeated_and_continued_without_a_step(delay: int):
    policy, _ = make(replace(SETTINGS, noise=0.0))
    fresh = policy.infer(observed()).model_actions
    policy.reset()
    previous = fresh + np.float32(0.2)
    chunk = policy.infer(observed(), prefix=ActionPrefix(previous, delay, 'hard')).model_actions
    np.testing.assert_array_equal(chunk[:delay], previous[:delay])
    assert np.abs(np.diff(chunk[:, :7], axis=0)).max() < np.abs(np.diff(fresh[:, :7], axis=0)).max() + 0.21


def test_a_hard_prefix_leaves_no_step_at_its_end():
    policy, _ = make(replace(SETTINGS, noise=0.0))
    fresh = policy.infer(observed()).model_actions
    policy.reset()
    chunk = policy.infer(observed(), prefix=ActionPrefix(fresh + np.float32(0.2), 4, 'hard')).model_actions
    step = np.abs(chunk[4, :7] - chunk[3, :7]).max()
    assert step < 0.05 < np.abs(fresh[4, :7] - chunk[3, :7]).max()


def test_a_prefix_that_does_not_fit_is_refused():
    policy, _ = make()
    for shape, delay in (((13, 7), 0), ((4, 33), 0), ((4, 7), 5)):
        with pytest.raises(Error, match='prefix of'):
            policy.infer(observed(), prefix=ActionPrefix(np.zeros(shape, np.float32), delay))


def test_prompts_are_counted_and_refused_ones_are_not():
    policy, _ = make()
    assert policy.set_prompt('two words') == 2
    for text, words in (('word ' * 201, 'needs 201 words'), ('  ', 'blank')):
        with pytest.raises(Error, match=words):
            policy.set_prompt(text)
    assert policy.infer(observed(prompt_id=2)).prompt_id == 2
    with pytest.raises(Error, match='prompt_id 1'):
        policy.infer(observed(prompt_id=1))


def test_a_picture_shows_its_own_pixels():
    policy, _ = make()
    frame = CameraFrame(bytes([1, 2, 3] * 6), 'bgr8', 2, 3, 9)
    views = policy.model_images(replace(observed(), images={'base': IMAGES['base'], 'wrist': frame}))
    assert views.shape == (2, 32, 32, 3)
    assert (views[0] == 7).all()
    assert (views[1] == (3, 2, 1)).all()


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        ({'latency_ms': 5.0}, 'jitter_ms is 10'),
        ({'horizon': 0}, 'horizon is 0'),
        ({'motion': 0.6}, 'motion is 0.6'),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, text: str):
    with pytest.raises(Error, match=text):
        replace(SETTINGS, **changes)


def test_robots_that_it_cannot_move_are_refused():
    with pytest.raises(Error, match='moves joints only'):
        make(actions__representation='end_effector', outputs__arm__quantity='position')
    limited = {'joints__limits': 'robot_description', 'joints__lower': [], 'joints__upper': []}
    with pytest.raises(Error, match=r'joints\.limits: parameters'):
        make(**limited, joints__max_velocity=[])
    other = read_parameters(groot_values(actions__joints=['gripper', *ARM]), NODE)[0]
    with pytest.raises(Error, match=r'actions\.joints is given'):
        StubPolicy(other, SETTINGS)
