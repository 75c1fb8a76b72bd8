# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Checks a folder of GR00T prompts: instruction as typed to the ids of the whole conversation."""

from pathlib import Path

import numpy as np

from flashrt_core.golden.files import data_files, only
from flashrt_core.golden.options import RunOptions
from flashrt_core.golden.report import Gap, Report
from flashrt_core.groot.chat import Chat, formalize
from flashrt_core.groot.tokenizer import ADDED, QwenTokenizer
from flashrt_core.json_fields import read_objects

_CASES = 'cases.json'
_MOST_PICTURES = 1 << 8
_MOST_TOKENS = 1 << 14  # of one picture
# How the files write the place of a picture: the tokens of the model replace it.
_PLACE = '<image-{}>'


def check_groot_tokens(folder: Path, options: RunOptions, report: Report) -> None:
    """Every case of cases.json."""
    vocabulary = only(folder, '*vocab.json', 'vocabulary')
    merges = only(folder, '*merges.txt', 'list of merges')
    tokenizer = QwenTokenizer(folder, vocabulary.name, merges.name)
    cases = read_objects(folder / _CASES)
    for index, case in enumerate(cases):
        name = f'{Path(_CASES).stem}[{index}]'
        pictures = case.integer('num_views', 1, _MOST_PICTURES)
        chat = Chat(tokenizer, True, (case.integer('image_tokens_per_view', 1, _MOST_TOKENS),) * pictures)
        instruction, saved = case.text('instruction'), case.text('formalized')
        report.compare_text(name, 'cleaned instruction', formalize(instruction), saved)
        places = ''.join(_PLACE.format(view + 1) for view in range(pictures))
        report.compare_text(name, 'template', chat.text(instruction, places), case.text('template'))
        ids = np.concatenate([chat.prompt(instruction), chat.observation()])
        report.compare(name, 'ids', ids, case.integers('input_ids'))
        report.compare(name, 'number of ids', len(ids), case.integer('input_ids_len'))
        if text_ids := case.integers('text_ids'):
            report.compare(name, 'ids of the instruction alone', tokenizer.encode(saved), text_ids)
    if not cases:
        report.gaps.append(Gap(_CASES, 'all of it', 'it holds no case'))
    known = {_CASES, ADDED, vocabulary.name, merges.name}
    for path in data_files(folder):
        if path.name not in known:
            report.gaps.append(Gap(path.name, 'all of it', 'no check knows this file'))
