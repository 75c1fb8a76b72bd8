# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a comparison measures, worked out by hand."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from flashrt_core.golden import Comparison, Report


def compare(*arguments, **options) -> Comparison:
    report = Report('folder')
    report.compare('case', 'tensor', *arguments, **options)
    return report.comparisons[0]


def test_the_largest_error_and_its_place():
    item = compare([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.5], [3.0, 3.75]], 0.5)
    assert (item.error, item.where, item.bound, item.compared, item.passed) == (0.5, (0, 1), 0.5, 4, True)
    assert not compare([1.0], [1.25], 0.125).passed


def test_the_largest_of_errors_where_all_should_be_equal():
    assert compare([9.0, 4e9, 10.0], [0.0, 0.0, 0.0]).where == (1,)


def test_only_valid_slots_count():
    item = compare([[1.0, 1.0], [9.0, 9.0]], np.ones((2, 2)), 0.0, np.array([True, False]))
    assert (item.error, item.compared, item.excluded, item.passed) == (0.0, 2, 2, True)


def test_a_tensor_without_a_valid_slot_does_not_pass():
    assert not compare([1.0], [1.0], 1.0, np.array([False])).passed


def test_a_bound_per_value():
    """The second error is smaller, but further beyond its bound."""
    item = compare([1.0, 0.3], [0.0, 0.0], np.array([2.0, 0.1]))
    assert (item.error, item.where, item.bound, item.passed) == (0.3, (1,), 0.1, False)


@pytest.mark.parametrize(
    ('actual', 'expected', 'error'),
    [
        (np.nan, 0.0, np.inf),
        (0.0, np.nan, np.inf),
        (np.inf, 0.0, np.inf),
        (np.nan, np.nan, 0.0),
        (np.inf, np.inf, 0.0),
        (-np.inf, np.inf, np.inf),
    ],
)
def test_values_that_are_not_finite(actual, expected, error):
    assert compare([actual], [expected], 1.0).error == error


def test_unsigned_integers_do_not_wrap():
    assert compare(np.uint8([1]), np.uint8([3])).error == 2


def test_another_shape_is_a_failure_with_both_shapes():
    item = compare(np.zeros((2, 3)), np.zeros((2, 4)), 1.0)
    assert not item.passed
    assert item.note == 'shape [2, 3], saved [2, 4]'


def test_relative_rms_by_hand():
    """Errors 0.3 and -0.4: RMS sqrt(0.125); saved values -1 and 1: standard deviation 1."""
    report = Report('folder')
    report.compare_rms('case', 'tensor', np.array([-0.7, 0.6]), np.array([-1.0, 1.0]), 0.1)
    assert report.comparisons[0].error == pytest.approx(np.sqrt(0.125))
    assert not report.passed()


@pytest.mark.parametrize(
    ('actual', 'expected', 'error'),
    [
        ([2.1], [2.0], 0.05),
        ([-3.0, -3.0], [-4.0, -4.0], 0.25),
        ([0.0], [0.0], 0.0),
        ([1e-30], [0.0], np.inf),
        ([np.nan], [2.0], np.inf),
    ],
)
def test_values_without_a_deviation_are_measured_by_their_size(actual, expected, error):
    report = Report('folder')
    report.compare_rms('case', 'tensor', np.array(actual), np.array(expected), 0.1)
    (item,) = report.comparisons
    assert (item.error, item.measure) == (pytest.approx(error), 'RMS / RMS')


def test_texts_show_where_they_part():
    report = Report('folder')
    report.compare_text('case', 'text', 'pick up', 'pick it')
    report.compare_text('case', 'text', 'same', 'same')
    first, second = report.comparisons
    assert (first.passed, first.where, second.passed) == (False, (5,), True)
    assert first.note == "'up', saved 'it'"


def test_nothing_compared_is_no_success():
    assert not Report('folder').passed()


def test_gaps_fail():
    report = Report('folder')
    report.compare('case', 'tensor', 1, 1)
    assert report.passed()
    report.add_unused('case', ['out.unknown'])
    assert not report.passed()


def test_the_table_shows_the_worst_case_and_any_failure():
    report = Report('folder')
    report.compare('a', 'tensor', [0.5], [0.0], 1.0)
    report.compare('b', 'tensor', [0.75], [0.0], 1.0)
    report.compare('a', 'other [x]', [2.0], [0.0], 1.0)
    console = Console(width=120, file=io.StringIO())
    console.print(report.table())
    lines = console.file.getvalue().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ['tensor', '7.50e-01', '1e+00', 'b', '[0]', '2', '0'],
        ['other', '[x]', '2.00e+00', '1e+00', 'a', '[0]', '1', '0', 'FAILED'],
    ]


def test_the_json_file_is_valid_and_complete():
    report = Report('folder', 'cpu', 'f32')
    report.compare('case', 'tensor', [np.nan], [0.0], 1.0)
    report.add_unused('case', ['out.unknown'])
    document = json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(f'{name} is not JSON'))
    assert document['format'] == 1
    assert document['passed'] is False
    assert document['comparisons'][0]['error'] is None  # infinite
    assert document['not_compared'][0]['what'] == 'out.unknown'
