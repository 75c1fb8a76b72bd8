# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Linears in groups: names, patterns of them alone, and weights that several of them read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core.call_groups import Linear, cover, group_linears, linears_of
from flashrt_core.errors import Error
from flashrt_core.recipes import matches

PLAN = """plan pi05
state actions [50, 32] f32
stage styles (load)
  styles.time_in = linear x=styles.time silu weight=time_in.weight f32 bias=b f32 -> y=a [10, 24] f32
stage vision (infer)
  vision.0.qkv = linear x=b weight=vision.0.qkv.weight e4m3 per channel bias=v.bias f32 -> y=c [512, 432] bf16
  vision.0.attn = attention q=c[:, 0:144] heads 2/2x72 -> y=d [512, 144] bf16
  vision.0.fc1 = linear x=e gelu_tanh weight=vision.0.fc1.weight e4m3 per channel -> y=f [512, 272] bf16
  vision.1.qkv = linear x=g weight=vision.1.qkv.weight e4m3 per channel -> y=h [512, 432] bf16
  vision.projector = linear x=i weight=projector.weight e4m3 per channel -> y=j [512, 32] bf16
stage denoise (infer, 10 times)
  denoise.0.qkv = linear x=k weight=expert.0.qkv.weight e4m3 per channel -> y=l [50, 2560] bf16
  denoise.velocity = linear x=m weight=velocity.weight f32 -> y=n [50, 32] f32
"""
LINEARS = linears_of(PLAN)
FLOAT = ('styles.time_in', 'denoise.velocity')


def quantised(name: str) -> bool:
    return name not in FLOAT


def groups(by: str) -> dict[str, tuple[str, ...]]:
    return {group.name: group.calls for group in group_linears(LINEARS, quantised, by)}


def test_linears_of_a_plan():
    assert [linear.name for linear in LINEARS] == [
        *('styles.time_in', 'vision.0.qkv', 'vision.0.fc1', 'vision.1.qkv', 'vision.projector'),
        *('denoise.0.qkv', 'denoise.velocity'),
    ]
    assert LINEARS[1] == Linear('vision.0.qkv', 'vision', 'vision.0.qkv.weight')


def test_by_stage_block_and_projection():
    vision = ('vision.0.qkv', 'vision.0.fc1', 'vision.1.qkv', 'vision.projector')
    assert groups('stage') == {'vision.*': vision, 'denoise.*': ('denoise.0.qkv',)}
    assert groups('block') == {
        'vision.0.*': ('vision.0.qkv', 'vision.0.fc1'),
        'vision.1.*': ('vision.1.qkv',),
        'vision.projector': ('vision.projector',),
        'denoise.0.*': ('denoise.0.qkv',),
    }
    assert groups('projection')['vision.*.qkv'] == ('vision.0.qkv', 'vision.1.qkv')


def test_by_patterns():
    found = groups('*.qkv,vision.projector')
    assert found == {
        '*.qkv': ('vision.0.qkv', 'vision.1.qkv', 'denoise.0.qkv'),
        'vision.projector': ('vision.projector',),
    }
    with pytest.raises(
        Error, match=r"'visoin\.\*' is neither stage, block, projection nor a pattern .* vision"
    ):
        groups('visoin.*')
    with pytest.raises(Error, match=r"vision\.0\.qkv matches 'vision\.\*' and '\*\.qkv'"):
        groups('vision.*,*.qkv')
    with pytest.raises(Error, match=r"'denoise\.velocity' is neither"):
        groups('denoise.velocity')  # is not quantised


def test_linears_that_read_one_weight_stay_together():
    twice = [*LINEARS, Linear('prefix.0.again', 'prefix', 'vision.1.qkv.weight')]
    found = {group.name: group.calls for group in group_linears(twice, quantised, 'stage')}
    assert found['vision.*'][-1] == 'prefix.0.again'
    assert 'prefix.*' not in found


def test_a_recipe_that_quantises_nothing_has_no_groups():
    with pytest.raises(Error, match='quantises no linear'):
        group_linears(LINEARS, lambda name: False, 'stage')


@given(st.sets(st.sampled_from([linear.name for linear in LINEARS])))
def test_patterns_match_the_calls_and_nothing_else(calls):
    patterns = cover(calls, LINEARS)
    matched = {one.name for one in LINEARS if any(matches(pattern, one.name) for pattern in patterns)}
    assert matched == calls
    assert len(patterns) <= len(calls)


def test_patterns_are_few():
    assert cover(groups('stage')['vision.*'], LINEARS) == ['vision.*']
    assert cover(['denoise.0.qkv'], LINEARS) == ['denoise.0.*']  # denoise.* would be too much


@pytest.mark.parametrize(
    ('pattern', 'name', 'fits'),
    [
        ('*', 'anything', True),
        ('prefix.?.qkv', 'prefix.3.qkv', True),
        ('prefix.?.qkv', 'prefix.13.qkv', False),
        ('prefix.*', 'prefix', False),
        ('a.b', 'aXb', False),
        ('[ab]', 'a', False),
    ],
)
def test_patterns_mean_what_they_mean_in_recipes(pattern, name, fits):
    assert matches(pattern, name) is fits
