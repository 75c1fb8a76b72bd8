# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a tokenizer folder: prompts to token ids, and the FAST action codec."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from flashrt_core.errors import Error
from flashrt_core.fast_codec import BytePairCodes, FastCodec, action_postfix, code_to_token, extract_codes
from flashrt_core.golden import bounds
from flashrt_core.golden.files import read_json
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.prompt import PlainPrompt, PromptFormat, StatePrompt, clean_fast, state_bins
from flashrt_core.tokenizer import Tokenizer, pad_tokens

TOKENIZER = 'tiny_spm.model'
BYTE_PAIRS = 'tiny_fast_bpe.json'
_FAST = StatePrompt(ending='', clean=clean_fast)
_FORMATS: dict[str, PromptFormat] = {
    'pi0': PlainPrompt(),
    'pi05': StatePrompt(),
    'pi0_fast': _FAST,
    'pi0_fast_with_actions': _FAST,
}


def check_tokens(folder: Path, options: RunOptions, report: Report) -> None:
    """Runs the checks whose files are there."""
    codec = _codec(folder) if (folder / 'fast_cases.json').is_file() else None
    checks: dict[str, Callable[[], None]] = {
        'fast_cases.json': lambda: _check_codec(folder, codec, report),
        'prompt_cases.json': lambda: _check_prompts(folder, codec, report),
    }
    for name, check in checks.items():
        if (folder / name).is_file():
            check()
    for path in sorted(folder.iterdir()):
        if path.name not in (*checks, TOKENIZER, BYTE_PAIRS):
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))


def _codec(folder: Path) -> FastCodec:
    cases = read_json(folder / 'fast_cases.json')
    return FastCodec(
        BytePairCodes.read(folder / BYTE_PAIRS),
        cases['scale'],
        cases['min_token'],
        cases['time_horizon'],
        cases['action_dim'],
    )


def _check_codec(folder: Path, codec: FastCodec | None, report: Report) -> None:
    assert codec is not None
    for index, case in enumerate(read_json(folder / 'fast_cases.json')['cases']):
        name = f'fast_cases[{index}]'
        if 'actions' in case:
            report.compare(name, 'FAST codes', codec.encode(np.array(case['actions'])), case['tokens'])
        decoded = codec.decode(case['tokens'])
        report.compare(name, 'FAST decoded actions', decoded, case['decoded'], bounds.NORMALISED)


def _check_prompts(folder: Path, codec: FastCodec | None, report: Report) -> None:
    tokenizer = Tokenizer(folder / TOKENIZER)
    document = read_json(folder / 'prompt_cases.json')
    special = {
        'vocab_size': tokenizer.vocab_size,
        'bos': tokenizer.bos,
        'eos': tokenizer.eos,
        'pad': pad_tokens([], 1)[0][0],
        'newline_id': tokenizer.encode('\n')[-1],
        'fast_skip_tokens': tokenizer.vocab_size - 1 - code_to_token(0, tokenizer.vocab_size),
    }
    for name, actual in special.items():
        report.compare('prompt_cases', f'tokenizer {name}', actual, document[name])
    for index, case in enumerate(document['cases']):
        _check_prompt(f'prompt_cases[{index}]', folder, case, tokenizer, codec, report)


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
        raise Error(f'{folder}: {name} refers to fast_cases.json, which is missing')
    codes = read_json(folder / 'fast_cases.json')['cases'][case['action_case']]['tokens']
    postfix = action_postfix(tokenizer, codes)
    report.compare(name, 'FAST postfix', postfix, case['postfix'])
    extracted = codec.decode(extract_codes(tokenizer, case['ids']))
    report.compare(name, 'FAST extracted actions', extracted, case['extracted'], bounds.NORMALISED)
    return postfix
