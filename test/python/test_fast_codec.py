# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""FAST codec: transform by hand, reference codes, wrong lengths, tokens and back."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_core import Error
from flashrt_core.fast_codec import (
    BytePairCodes,
    FastCodec,
    action_postfix,
    code_to_token,
    extract_codes,
)
from flashrt_core.tokenizer import Tokenizer

# Two bytes that merge into one piece: 'a' = 0, 'b' = 1, 'ab' = 2.
TINY = BytePairCodes({'a': 0, 'b': 1, 'ab': 2, 'Ġ': 3}, {('a', 'b'): 0})


@pytest.fixture(scope='module')
def cases(golden):
    return json.loads((golden / 'pi_tokenizer' / 'fast_cases.json').read_text())


@pytest.fixture(scope='module')
def codec(golden, cases) -> FastCodec:
    codes = BytePairCodes.read(golden / 'pi_tokenizer' / 'tiny_fast_bpe.json')
    return FastCodec(codes, cases['scale'], cases['min_token'], cases['time_horizon'], cases['action_dim'])


def test_byte_pairs_by_hand():
    assert TINY.encode('aab') == [0, 2]
    assert TINY.encode('ab ab') == [2, 3, 2]  # merges do not cross words; a space opens the next word
    assert TINY.decode([0, 2, 3]) == 'aab '


def test_transform_by_hand():
    """Orthonormal DCT of (3, 1): (4 / sqrt 2, 2 / sqrt 2); at scale sqrt 2 these are 4 and 2."""
    codes = BytePairCodes({chr(c): c for c in range(97, 110)}, {})
    codec = FastCodec(codes, scale=np.sqrt(2), min_token=-97, horizon=2, action_dim=1)
    assert codec.encode(np.array([[3.0], [1.0]])) == [97 + 4, 97 + 2]
    np.testing.assert_allclose(codec.decode([101, 99]), [[3], [1]], atol=1e-12)


def test_reference(codec, cases):
    encoded = [case for case in cases['cases'] if 'actions' in case]
    wrong = [case for case in cases['cases'] if case.get('wrong_length')]
    assert encoded
    assert wrong
    for case in encoded:
        assert codec.encode(np.array(case['actions'])) == case['tokens']
        np.testing.assert_allclose(codec.decode(case['tokens']), case['decoded'], rtol=0, atol=1e-9)
    for case in wrong:
        assert not codec.decode(case['tokens']).any()
        assert not np.any(case['decoded'])


def test_tokens_and_back(golden, codec, cases):
    tokenizer = Tokenizer(golden / 'pi_tokenizer' / 'tiny_spm.model')
    prompts = json.loads((golden / 'pi_tokenizer' / 'prompt_cases.json').read_text())['cases']
    checked = 0
    for case in prompts:
        if 'postfix' in case:
            codes = extract_codes(tokenizer, case['postfix'])
            assert codes == cases['cases'][case['action_case']]['tokens']
            np.testing.assert_allclose(codec.decode(codes), case['extracted'], rtol=0, atol=1e-9)
            checked += 1
    assert checked == 4
    assert extract_codes(tokenizer, tokenizer.encode('no actions here|')) == []
    unfinished = action_postfix(tokenizer, [3, 5])[:-2]
    assert extract_codes(tokenizer, unfinished) == [3, 5]


def test_code_mapping():
    assert code_to_token(0, 257152) == 257023
    assert code_to_token(code_to_token(77, 257152), 257152) == 77


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=70, max_size=70))
def test_error_of_a_round_trip_is_bounded_by_the_quantisation(codec, values):
    """Each of 10 coefficients is off by at most half a step of 1 / scale; the transform keeps lengths."""
    actions = np.reshape(values, (10, 7))
    error = codec.decode(codec.encode(actions)) - actions
    assert np.linalg.norm(error, axis=0).max() <= np.sqrt(10) * 0.5 / codec.scale + 1e-9


def tiny(**sizes) -> FastCodec:
    return FastCodec(TINY, **({'scale': 1, 'min_token': 0, 'horizon': 1, 'action_dim': 1} | sizes))


@pytest.mark.parametrize(
    ('value', 'min_token', 'text'),
    [
        (99, 0, "'c' is none of the 4 pieces of the vocabulary"),
        (0x110000, 0, 'a quantised value of 1114112 is no character'),
        (0xD800, 0, 'a quantised value of 55296 is no character'),
        (1e300, 0, 'is no character'),
        (np.nan, 0, 'a quantised value of nan is no character'),
        (0, -(1 << 31), 'a quantised value of 2147483648 is no character'),
    ],
)
def test_actions_without_codes_are_refused(value, min_token, text):
    with pytest.raises(Error, match=text):
        tiny(min_token=min_token).encode(np.array([[value]], np.float64))


def test_actions_of_another_shape_are_refused():
    with pytest.raises(Error, match=r'actions have shape \[2, 1\], needed \[1, 1\]'):
        tiny().encode(np.zeros((2, 1)))


@pytest.mark.parametrize('sizes', [{'scale': 0}, {'scale': np.inf}, {'horizon': 0}, {'action_dim': 0}])
def test_sizes_that_hold_nothing_are_refused(sizes):
    with pytest.raises(Error, match='must be positive and finite'):
        tiny(**sizes)


@pytest.mark.parametrize('code', [-1, 584, 1 << 40])
def test_codes_without_a_token_are_refused(code, golden):
    tokenizer = Tokenizer(golden / 'pi_tokenizer' / 'tiny_spm.model')
    with pytest.raises(Error, match=rf'code {code} is no token of .*, which has room for 0 to 583'):
        action_postfix(tokenizer, [0, code])


def test_a_vocabulary_of_texts_is_refused(tmp_path):
    path = tmp_path / 'tokenizer.json'
    path.write_text(json.dumps({'model': {'merges': [], 'vocab': {'a': '0'}}}))
    with pytest.raises(Error, match=r"tokenizer\.json holds no byte-pair codes .*code of 'a' is '0'"):
        BytePairCodes.read(path)


def test_refuses_other_files(tmp_path):
    path = tmp_path / 'tokenizer.json'
    path.write_text('{"model": {}}')
    with pytest.raises(Error, match=r'tokenizer\.json holds no byte-pair codes'):
        BytePairCodes.read(path)
