# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Token ids of GR00T conversations against reference ids, and files that are no tokenizer."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from groot_files import write_byte_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from flashrt_core import Error
from flashrt_core.groot.chat import IMAGE_TOKEN, LONGEST_INSTRUCTION, Chat, formalize
from flashrt_core.groot.tokenizer import QwenTokenizer

FOLDER = Path(__file__).parents[1] / 'golden' / 'groot_n16_tiny' / 'tokenizer'
CASES = json.loads((FOLDER / 'cases.json').read_text())


@pytest.fixture(scope='module')
def tokenizer() -> QwenTokenizer:
    return QwenTokenizer(FOLDER, 'mini_vocab.json', 'mini_merges.txt')


@pytest.fixture(scope='module')
def bytes_only(tmp_path_factory) -> QwenTokenizer:
    """A vocabulary of the 256 bytes, which every text can be written with; no merges."""
    added = ['<|im_start|>', '<|im_end|>', '<img>', '</img>', IMAGE_TOKEN]
    folder = tmp_path_factory.mktemp('bytes')
    write_byte_tokenizer(folder, {text: 256 + i for i, text in enumerate(added)})
    return QwenTokenizer(folder)


def row(chat: Chat, instruction: str) -> list[int]:
    return [*chat.prompt(instruction), *chat.observation()]


@pytest.mark.parametrize('case', CASES, ids=[case['instruction'] or 'empty' for case in CASES])
def test_reference_ids(tokenizer, case):
    chat = Chat(tokenizer, True, (case['image_tokens_per_view'],) * case['num_views'])
    assert chat.read(case['instruction']) == case['formalized']
    assert row(chat, case['instruction']) == case['input_ids']


def test_the_prompt_ends_where_the_first_picture_begins(tokenizer):
    chat = Chat(tokenizer, True, (81, 81))
    prompt, observation = chat.prompt('put the blue block in the green bowl'), chat.observation()
    assert prompt.dtype == observation.dtype == np.int32
    assert len(prompt) == 14 + 8 + 6  # header, instruction, five tokens of markup and <img>
    assert len(observation) == 88 * 2 - 6 + 2
    assert prompt[-1] == tokenizer.token('<img>') == 151670
    assert (observation == 151669).sum() == 2 * 81
    assert observation[81:88].tolist() == [151671, 27, 1805, 220, 17, 29, 151670]  # </img><image 2><img>
    assert observation[-3:].tolist() == [151671, 151645, 198]
    assert chat.markup_rows == (7, 3)


def test_pictures_of_several_sizes(tokenizer):
    ids = Chat(tokenizer, True, (4, 9)).observation().tolist()
    assert ids[:5] == [151669] * 4 + [151671]
    assert ids[11:21] == [151669] * 9 + [151671]


# The last space of the instruction joins the '<' after it.
def test_the_instruction_is_tokenised_with_what_follows_it(tokenizer):
    alone = tokenizer.encode('put it down ')
    prompt = Chat(tokenizer, True, (81,)).prompt('put it down !')
    assert len(alone) == 4
    assert len(prompt) == 14 + 3 + 6
    assert 366 in prompt


@pytest.mark.parametrize(
    ('typed', 'read'),
    [
        ("Pick-up the CUP, don't drop it!", 'pickup the cup dont drop it'),
        ('two  spaces_and 2.5', 'two  spaces_and 25'),
        ('cafe\u0301 caf\u00e9', 'cafe caf\u00e9'),  # a mark is no word character, a composed letter is one
        ('m\u00b2 \u0967 \u2163', 'm\u00b2 \u0967 \u2173'),  # numerics of any kind are
        ('<img>', 'img'),
    ],
)
def test_clean_up(typed, read):
    assert formalize(typed) == read


@given(st.text(max_size=60))
def test_clean_up_leaves_words_and_white_space(text):
    cleaned = formalize(text)
    assert all(c.isalnum() or c == '_' or c.isspace() for c in cleaned)
    assert sum(map(str.isspace, cleaned)) == sum(map(str.isspace, text))


@given(st.text(st.characters(exclude_categories=['Cs']), max_size=60), st.integers(1, 4))
def test_any_instruction_lies_between_header_and_first_picture(bytes_only, text, pictures):
    chat = Chat(bytes_only, True, (3,) * pictures)
    ids = row(chat, text)
    assert ids.count(bytes_only.token(IMAGE_TOKEN)) == 3 * pictures
    assert ids.count(bytes_only.token('<img>')) == ids.count(bytes_only.token('</img>')) == pictures
    assert (
        ids
        == bytes_only.encode(
            chat.text(text, ''.join(f'<image {i + 1}><img>{IMAGE_TOKEN * 3}</img>' for i in range(pictures)))
        ).tolist()
    )


# Letters that are composed and letters with a mark are the same text to the tokenizer.
def test_text_is_composed_first(bytes_only):
    assert bytes_only.encode('e\u0301').tolist() == bytes_only.encode('\u00e9').tolist() == [0xC3, 0xA9]


def test_an_instruction_may_not_hold_tokens_of_the_template(tokenizer):
    chat = Chat(tokenizer, False, (81,))
    with pytest.raises(Error, match=r"the instruction holds the token '<IMG_CONTEXT>'"):
        chat.prompt('see <IMG_CONTEXT>')


def test_an_instruction_beyond_all_measure_is_refused(tokenizer):
    with pytest.raises(Error, match=f'2001 characters, at most {LONGEST_INSTRUCTION}'):
        Chat(tokenizer, True, (81,)).prompt('a' * (LONGEST_INSTRUCTION + 1))


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('vocab.json', '{', r'vocab.json cannot be read \(JSONDecodeError'),
        ('vocab.json', '[1]', r'vocab.json is not \{"piece": id'),
        ('vocab.json', '{"a": -1}', r'vocab.json is not \{"piece": id'),
        ('vocab.json', '{"a": 1, "b": 1}', 'vocab.json gives one id to several pieces'),
        ('vocab.json', '{}', '0 pieces in vocab.json'),
        ('vocab.json', '{"a": 151643}', r'ids \[151643\] are also those of added_tokens.json'),
        ('merges.txt', 'a b c\n', r"merges.txt has the line 'a b c', needed two pieces"),
        ('merges.txt', b'\xff', 'merges.txt is no text'),
        ('added_tokens.json', '{"": 999999}', 'whose texts must not be empty'),
        ('added_tokens.json', '{}', "has no '<IMG_CONTEXT>'"),
    ],
)
def test_files_that_are_no_tokenizer(tmp_path, name, content, message):
    shutil.copy(FOLDER / 'mini_vocab.json', tmp_path / 'vocab.json')
    shutil.copy(FOLDER / 'mini_merges.txt', tmp_path / 'merges.txt')
    shutil.copy(FOLDER / 'added_tokens.json', tmp_path / 'added_tokens.json')
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Error, match=message):
        QwenTokenizer(tmp_path).token(IMAGE_TOKEN)


@pytest.mark.parametrize('name', ['vocab.json', 'merges.txt', 'added_tokens.json'])
def test_a_missing_file_is_named(tmp_path, name):
    for other in {'vocab.json', 'merges.txt', 'added_tokens.json'} - {name}:
        (tmp_path / other).write_text('{}')
    with pytest.raises(Error, match=f'{name} does not exist; a GR00T checkpoint has no tokenizer of its own'):
        QwenTokenizer(tmp_path)
