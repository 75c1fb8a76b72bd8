# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a tokenizer folder: prompts to token ids, and the FAST action codec."""

from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.fast_codec import BytePairCodes, FastCodec, action_postfix, code_to_token, extract_codes
from flashrt_core.golden import bounds
from flashrt_core.golden.files import data_files, only, read_json
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.prompt import PlainPrompt, PromptFormat, StatePrompt, clean_fast, state_bins
from flashrt_core.tokenizer import Tokenizer, pad_tokens

PROMPT_CASES, FAST_CASES = 'prompt_cases.json', 'fast_cases.json'
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
    document = read_json(path)
    codec = FastCodec(
        byte_pairs,
        document['scale'],
        document['min_token'],
        document['time_horizon'],
        document['action_dim'],
    )
    report.compare(path.stem, 'FAST vocabulary', len(byte_pairs.ids), document['vocab_size'])
    for index, case in enumerate(document['cases']):
        name = f'{path.stem}[{index}]'
        if 'actions' in case:
            report.compare(name, 'FAST codes', codec.encode(np.array(case['actions'])), case['tokens'])
        decoded = codec.decode(case['tokens'])
        report.compare(name, 'FAST decoded actions', decoded, case['decoded'], bounds.NORMALISED)
    return codec


def _check_prompts(path: Path, tokenizer: Tokenizer, codec: FastCodec | None, report: Report) -> None:
    document = read_json(path)
    special = {
        'vocab_size': tokenizer.vocab_size,
        'bos': tokenizer.bos,
        'eos': tokenizer.eos,
        'pad': pad_tokens([], 1)[0][0],
        'newline_id': tokenizer.encode('\n')[-1],
        'fast_skip_tokens': tokenizer.vocab_size - 1 - code_to_token(0, tokenizer.vocab_size),
    }
    for name, actual in special.items():
        report.compare(path.stem, f'tokenizer {name}', actual, document[name])
    for index, case in enumerate(document['cases']):
        _check_prompt(f'{path.stem}[{index}]', path.parent, case, tokenizer, codec, report)


def _check_prompt(
    name: str, folder: Path, case: dict, tokenizer: Tokenizer, codec: FastCodec | None, report: Report
) -> None:
    kind = case['format']
    if kind not in _FORMATS:
        report.gaps.append(Gap(name, f"format '{kind}'", f'known formats are {sorted(_FORMATS)}'))
        return
    pieces = _FORMATS[kind].pieces(case['prompt'], state_bins(np.array(case.get('state', []), np.float64)))
    tokens = tokenizer.prompt(pieces).tolist()
    if case.get('text') is not None:
        report.compare_text(name, f'{kind} text', ''.join(pieces), case['text'])
    prompt_length = len(tokens)
    if 'postfix' in case:
        tokens += _check_postfix(name, folder, case, tokenizer, codec, report)
    ids, mask = pad_tokens(tokens, case['max_len'])
    report.compare(name, f'{kind} ids', ids, case['ids'])
    report.compare(name, f'{kind} mask', mask, case['mask'])
    # Only what a model of this kind is trained to write is autoregressive.
    postfix = mask.astype(bool) & (np.arange(len(mask)) >= prompt_length)
    for key in ('ar_mask', 'loss_mask'):
        if key in case:
            report.compare(name, f'{kind} {key}', postfix, case[key])


def _check_postfix(
    name: str, folder: Path, case: dict, tokenizer: Tokenizer, codec: FastCodec | None, report: Report
) -> list[int]:
    if codec is None:
        raise Error(f'golden: {folder}: {name} refers to {FAST_CASES}, which is missing')
    codes = read_json(folder / FAST_CASES)['cases'][case['action_case']]['tokens']
    postfix = action_postfix(tokenizer, codes)
    report.compare(name, 'FAST postfix', postfix, case['postfix'])
    extracted = codec.decode(extract_codes(tokenizer, case['ids']))
    report.compare(name, 'FAST extracted actions', extracted, case['extracted'], bounds.NORMALISED)
    return postfix
