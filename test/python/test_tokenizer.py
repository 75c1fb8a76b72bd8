# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Tokens of every prompt format against reference ids, and files that are no tokenizer."""

import json
from pathlib import Path

import numpy as np
import pytest

from flashrt_core import Error
from flashrt_core.fast_codec import action_postfix
from flashrt_core.prompt import PlainPrompt, StatePrompt, clean_fast, state_bins
from flashrt_core.tokenizer import Tokenizer, pad_tokens

DATA = Path(__file__).resolve().parent.parent / 'data'
FORMATS = {
    'pi0': PlainPrompt(),
    'pi05': StatePrompt(),
    'pi0_fast': StatePrompt('', clean_fast),
    'pi0_fast_with_actions': StatePrompt('', clean_fast),
}


@pytest.fixture
def tokenizer(golden) -> Tokenizer:
    return Tokenizer(golden / 'pi_tokenizer' / 'tiny_spm.model')


def test_vocabulary(golden, tokenizer):
    cases = json.loads((golden / 'pi_tokenizer' / 'prompt_cases.json').read_text())
    assert (tokenizer.bos, tokenizer.eos) == (cases['bos'], cases['eos'])
    assert tokenizer.vocab_size == cases['vocab_size']
    assert tokenizer.encode('\n') == [cases['newline_id']]


def test_pieces_are_tokenised_apart(tokenizer):
    apart = tokenizer.prompt(('pick', ' up'))
    assert apart.tolist() == [tokenizer.bos, *tokenizer.encode('pick'), *tokenizer.encode(' up')]
    assert apart.dtype == np.int32


@pytest.mark.parametrize('format_', FORMATS)
def test_reference_ids(golden, tokenizer, format_):
    folder = golden / 'pi_tokenizer'
    cases = json.loads((folder / 'prompt_cases.json').read_text())['cases']
    actions = json.loads((folder / 'fast_cases.json').read_text())['cases']
    chosen = [case for case in cases if case['format'] == format_]
    assert len(chosen) >= 4
    for case in chosen:
        pieces = FORMATS[format_].pieces(case['prompt'], state_bins(case.get('state', [])))
        if case.get('text') is not None:
            assert pieces == (case['text'],)
        ids = tokenizer.prompt(pieces).tolist()
        postfix = []
        if format_ == 'pi0_fast_with_actions':
            postfix = action_postfix(tokenizer, actions[case['action_case']]['tokens'])
            assert postfix == case['postfix']
            in_postfix = np.zeros(case['max_len'], int)
            in_postfix[len(ids) : len(ids) + len(postfix)] = 1
            assert in_postfix.tolist() == case['ar_mask'] == case['loss_mask']
        padded, mask = pad_tokens(ids + postfix, case['max_len'])
        assert padded.tolist() == case['ids'], case['prompt']
        assert mask.tolist() == case['mask']


def test_padding_by_hand():
    ids, mask = pad_tokens([2, 5], 4)
    assert (ids.tolist(), mask.tolist()) == ([2, 5, 0, 0], [1, 1, 0, 0])
    ids, mask = pad_tokens([2, 5, 6], 2)
    assert (ids.tolist(), mask.tolist()) == ([2, 5], [1, 1])


def test_refused_files(tmp_path):
    with pytest.raises(Error, match=r'absent\.model does not exist'):
        Tokenizer(tmp_path / 'absent.model')
    wrong = tmp_path / 'wrong.model'
    wrong.write_text('version https://git-lfs.github.com/spec/v1')
    with pytest.raises(Error, match=r'wrong\.model \(42 bytes\) is no SentencePiece model'):
        Tokenizer(wrong)


def test_text_that_the_vocabulary_cannot_write_is_refused_with_the_text():
    tokenizer = Tokenizer(DATA / 'whole_words.model')
    bins = state_bins(np.array([0.0, -2.0, 2.0]))
    tokens = tokenizer.prompt(StatePrompt().pieces('pick up the red block', bins))
    # Task: pick up the red block , State: 128 -1 255 ; newline Action: space
    assert len(tokens) == 1 + 15
    with pytest.raises(
        Error, match=r"^prompt: 'mug', 'gently' are not in the vocabulary of .*whole_words.model$"
    ):
        tokenizer.prompt(StatePrompt().pieces('pick up the mug gently', bins))
    with pytest.raises(Error, match=r"^prompt: 'dish' is not in the vocabulary"):
        tokenizer.prompt(StatePrompt().pieces('pick up the reddish block', bins))


def test_a_vocabulary_with_bytes_writes_any_text(tokenizer):
    assert len(tokenizer.prompt(('pick up \u5757', '\n'))) > 4
