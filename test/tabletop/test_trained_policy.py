# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The trained policy acts: pictures, prompt, timing and formats are right, or it would not succeed.

Scenes are those of evaluation, by their numbers; nothing in them depends on the machine.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.tabletop.episode import Calibrations, EpisodePlayer, Values
from flashrt_ros.tabletop.evaluation import Assignment, Condition, Episode, assignments
from flashrt_ros.tabletop.scales import calibrate, look_around, needs_scales, write_samples
from flashrt_ros.tabletop.tasks import Task

PARAMETERS = Path(__file__).parents[2] / 'config' / 'pi05_tabletop.yaml'
FLOAT = Condition('f32', '', 0, 'skip', 0.0, 'none')
FP8 = replace(FLOAT, recipe='fp8', estimator='min_max')
NINE = assignments(['lift'], 9)
STACK = Assignment(4, Task('stack', 'red', 'blue'), 0)


@pytest.fixture(scope='module')
def values() -> Values:
    return read_parameter_file(PARAMETERS, '/policy')


@pytest.fixture(scope='module')
def scales(values: Values, tmp_path_factory: pytest.TempPathFactory) -> Calibrations:
    """Of FP8, from three episodes that are judged nowhere."""
    folder = tmp_path_factory.mktemp('scales')
    with EpisodePlayer(values, {}) as player:
        seen = [one for episode in look_around(player, 3) for one in episode]
    made = calibrate(FP8, ['min_max'], values, seen, folder)
    return {key: path for key, (path, _) in made.items()}


@pytest.fixture(scope='module')
def player(values: Values, scales: Calibrations) -> Iterator[EpisodePlayer]:
    with EpisodePlayer(values, scales) as player:
        yield player


def told(episode: Episode) -> str:
    return f'scene {episode.assignment.scene}, {episode.assignment.prompt}: {episode.why}'


def test_the_checkpoint_is_small():
    folder = PARAMETERS.parents[1] / 'checkpoints' / 'pi05_tabletop'
    assert sum(path.stat().st_size for path in folder.iterdir()) < 12e6


@pytest.mark.parametrize('condition', [FLOAT, FP8], ids=['f32', 'fp8'])
def test_nine_cubes_are_lifted(player: EpisodePlayer, condition: Condition):
    episodes = [player.play(condition, assignment) for assignment in NINE]
    assert [told(episode) for episode in episodes if not episode.is_success] == []
    assert [episode.acted_on for episode in episodes] == [one.task.block for one in NINE]


@pytest.mark.parametrize('mode', ['skip', 'rtc'])
def test_a_stack_with_a_delay_of_200_ms(player: EpisodePlayer, mode: str):
    episode = player.play(replace(FLOAT, mode=mode, delay_s=0.2), STACK)
    assert episode.is_success, told(episode)
    assert episode.underruns == 0


def test_a_switched_prompt_and_a_moved_cube_are_followed(player: EpisodePlayer):
    for control in ('prompt_switched', 'block_moved'):
        episode = player.play(replace(FLOAT, control=control), NINE[0])
        assert episode.is_success, (control, told(episode))
        assert episode.acted_on == 'red'


@pytest.mark.parametrize('control', ['blank_prompt', 'wrist_frozen', 'views_swapped'])
def test_without_what_it_needs_no_cube_is_lifted(player: EpisodePlayer, control: str):
    assert not player.play(replace(FLOAT, control=control), NINE[0]).is_success


def test_a_first_command_that_the_gate_holds_back_is_why(values: Values):
    with EpisodePlayer({**values, 'safety.max_first_gap': [0.001]}, {}) as player:
        episode = player.play(FLOAT, assignments(['touch'], 1)[0])
    assert episode.why.startswith('not done within 5 s; first command after a start: too far')
    assert (episode.is_success, episode.refused, episode.acted_on) == (False, 50, '')


def test_an_episode_is_the_same_again(player: EpisodePlayer):
    touch, other = assignments(['touch'], 2)
    first = player.play(FLOAT, touch)
    player.play(FLOAT, other)  # leaves nothing behind
    again = player.play(FLOAT, touch)
    assert again == first
    assert again.jumps


def test_what_was_seen_can_be_studied_by_other_tools(player: EpisodePlayer, tmp_path: Path):
    from flashrt_core.samples import read_samples

    (seen,) = look_around(player, 1)
    policy = player.policy(FLOAT)
    assert needs_scales('fp8', policy)
    assert not needs_scales('bf16', policy)
    write_samples(policy, seen, tmp_path / 'samples.safetensors')
    read = dict(read_samples(tmp_path / 'samples.safetensors'))
    assert len(read) == len(seen) > 1
    sample = next(iter(read.values()))
    assert sample.images.shape == (2, 112, 112, 3)
    assert sample.images.std() > 1
    assert sample.steps == 10
