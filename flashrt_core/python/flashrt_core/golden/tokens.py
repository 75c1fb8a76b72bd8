# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a tokenizer folder: prompts to token ids, and the FAST action codec."""

from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.fast_codec import BytePairCodes, FastCodec, action_postfix, code_to_token, extract_codes
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files, only
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.json_fields import MOST, Fields, read_object
from flashrt_core.prompt import PlainPrompt, PromptFormat, StatePrompt, clean_fast, state_bins
from flashrt_core.tokenizer import Tokenizer, pad_tokens

PROMPT_CASES, FAST_CASES = 'prompt_cases.json', 'fast_cases.json'
MOST_SIDE = 1 << 10  # of a chunk of actions
MOST_TOKENS = 1 << 20
_FAST = StatePrompt(ending='', clean=clean_fast)
_FORMATS: dict[str, PromptFormat] = {
    'pi0': PlainPrompt(),
    'pi05': StatePrompt(),
    'pi0_fast': _FAST,
    'pi0_fast_with_actions': _FAST,
}


def check_tokens(folder: Path, options: RunOptions, report: Report) -> None:
    """Runs the checks whose files are there."""
    known = set()
    codec = None
    if (folder / FAST_CASES).is_file():
        byte_pairs = only(folder, '*bpe*.json', 'file of byte-pair codes')
        codec = _check_codec(folder / FAST_CASES, BytePairCodes.read(byte_pairs), report)
        known |= {FAST_CASES, byte_pairs.name}
    if (folder / PROMPT_CASES).is_file():
        model = only(folder, '*.model', 'SentencePiece model')
        _check_prompts(folder / PROMPT_CASES, Tokenizer(model), codec, report)
        known |= {PROMPT_CASES, model.name}
    for path in data_files(folder):
        if path.name not in known:
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))


def _check_codec(path: Path, byte_pairs: BytePairCodes, report: Report) -> FastCodec:
    document = read_object(path)
    codec = FastCodec(
        byte_pairs,
        document.number('scale'),
        document.integer('min_token', -MOST),
        document.integer('time_horizon', 1, MOST_SIDE),
        document.integer('action_dim', 1, MOST_SIDE),
    )
    report.compare(path.stem, 'FAST vocabulary', len(byte_pairs.ids), document.integer('vocab_size'))
    for index, case in enumerate(document.objects('cases')):
        name, tokens = f'{path.stem}[{index}]', case.integers('tokens')
        if 'actions' in case:
            report.compare(name, 'FAST codes', codec.encode(case.numbers('actions', axes=2)), tokens)
        saved = case.numbers('decoded', axes=2)
        report.compare(name, 'FAST decoded actions', codec.decode(tokens), saved, bounds.NORMALISED)
    return codec


def _check_prompts(path: Path, tokenizer: Tokenizer, codec: FastCodec | None, report: Report) -> None:
    document = read_object(path)
    special = {
        'vocab_size': tokenizer.vocab_size,
        'bos': tokenizer.bos,
        'eos': tokenizer.eos,
        'pad': pad_tokens([], 1)[0][0],
        'newline_id': tokenizer.encode('\n')[-1],
        'fast_skip_tokens': tokenizer.vocab_size - 1 - code_to_token(0, tokenizer.vocab_size),
    }
    for name, actual in special.items():
        report.compare(path.stem, f'tokenizer {name}', actual, document.integer(name, -1))
    for index, case in enumerate(document.objects('cases')):
        _check_prompt(f'{path.stem}[{index}]', path.parent, case, tokenizer, codec, report)


def _check_prompt(
    name: str, folder: Path, case: Fields, tokenizer: Tokenizer, codec: FastCodec | None, report: Report
) -> None:
    kind = case.text('format')
    if kind not in _FORMATS:
        report.gaps.append(Gap(name, f"format '{kind}'", f'known formats are {sorted(_FORMATS)}'))
        return
    state = case.numbers('state', axes=1) if 'state' in case else np.zeros(0)
    pieces = _FORMATS[kind].pieces(case.text('prompt'), state_bins(state))
    tokens = tokenizer.prompt(pieces).tolist()
    if case.has('text'):
        report.compare_text(name, f'{kind} text', ''.join(pieces), case.text('text'))
    prompt_length = len(tokens)
    if 'postfix' in case:
        tokens += _check_postfix(name, folder, case, tokenizer, codec, report)
    ids, mask = pad_tokens(tokens, case.integer('max_len', 1, MOST_TOKENS))
    report.compare(name, f'{kind} ids', ids, case.integers('ids'))
    report.compare(name, f'{kind} mask', mask, case.integers('mask'))
    # Only what a model of this kind is trained to write is autoregressive.
    postfix = mask.astype(bool) & (np.arange(len(mask)) >= prompt_length)
    for key in ('ar_mask', 'loss_mask'):
        if key in case:
            report.compare(name, f'{kind} {key}', postfix, case.integers(key))


def _check_postfix(
    name: str, folder: Path, case: Fields, tokenizer: Tokenizer, codec: FastCodec | None, report: Report
) -> list[int]:
    if codec is None:
        raise Error(f'golden: {folder}: {name} refers to {FAST_CASES}, which is missing')
    actions = read_object(folder / FAST_CASES).objects('cases')
    codes = actions[case.integer('action_case', 0, len(actions) - 1)].integers('tokens')
    postfix = action_postfix(tokenizer, codes)
    report.compare(name, 'FAST postfix', postfix, case.integers('postfix'))
    extracted = codec.decode(extract_codes(tokenizer, case.integers('ids')))
    saved = case.numbers('extracted', axes=2)
    report.compare(name, 'FAST extracted actions', extracted, saved, bounds.NORMALISED)
    return postfix
