# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The `flashrt` command: which sub-commands it has, what it prints where, and its exit codes."""

import json
import re
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

import flashrt_core.cli
from flashrt_core.cli import main
from flashrt_core.errors import Error, ModelNotSupportedError

GOLDEN = Path(__file__).parents[1] / 'golden'
# What the package registers; the metadata of an installation are not part of these tests.
COMMANDS = {
    name: EntryPoint(name, f'flashrt_core.cli.{name}:run', 'flashrt.commands')
    for name in ('bench', 'calibrate', 'compare', 'golden', 'pack')
}


@pytest.fixture
def flashrt(monkeypatch, capsys):
    """Runs the command: arguments -> exit code, stdout, stderr."""

    def run(*arguments, commands=COMMANDS):
        monkeypatch.setattr(flashrt_core.cli, 'entry_points', lambda group: list(commands.values()))
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


def test_help_names_every_command(flashrt):
    code, out, _ = flashrt('--help')
    assert code == 0
    assert all(name in out for name in COMMANDS)


def test_only_the_command_that_is_meant_is_imported(flashrt):
    broken = EntryPoint('broken', 'no_such_module:run', 'flashrt.commands')
    code, out, _ = flashrt('golden', '--help', commands=COMMANDS | {'broken': broken})
    assert code == 0
    assert 'saved results' in out


def test_commands_of_other_packages_are_found(flashrt, monkeypatch):
    entry = EntryPoint('greet', 'test_cli:greet', 'flashrt.commands')
    assert flashrt('greet', 'robot', commands={'greet': entry}) == (0, 'hello robot\n', '')


def greet(name: str) -> None:
    """Say hello."""
    print(f'hello {name}')


def test_golden_passes_with_a_table(flashrt):
    code, out, err = flashrt('golden', GOLDEN / 'pi05_heads')
    assert (code, err) == (0, '')
    assert 'out.prefix_k.last' in out
    assert 'passed: 18 comparisons, 0 beyond their bounds, 0 not compared' in out


def test_golden_runs_on_packed_weights(flashrt, tmp_path):
    packed = tmp_path / 'packed.safetensors'
    assert flashrt('pack', GOLDEN / 'pi05_heads', '-o', packed, '--recipe', 'f32')[0] == 0
    code, out, err = flashrt('golden', GOLDEN / 'pi05_heads', '--packed', packed, '--threads', 2)
    assert (code, err) == (0, '')
    assert 'passed: 18 comparisons' in out
    code, _, err = flashrt('golden', GOLDEN / 'pi05_tiny', '--packed', packed)
    assert code == 2
    assert 'was packed for plan' in err


def test_golden_fails_and_names_the_tensor(flashrt, tmp_path):
    folder = Path(shutil.copytree(GOLDEN / 'pi05_tiny', tmp_path / 'folder'))
    tensors = load_file(folder / 'case_02.safetensors')
    tensors['out.v_t'][0, 0, 4, 7] += 1
    save_file(tensors, folder / 'case_02.safetensors')
    code, out, err = flashrt('golden', folder, '--json', tmp_path / 'report.json')
    assert (code, err) == (1, '')
    (line,) = (line for line in out.splitlines() if 'FAILED' in line)
    assert line.split()[:7] == ['out.v_t', '1.00e+00', '5e-05', 'case_02', '[0,', '4,', '7]']
    report = json.loads((tmp_path / 'report.json').read_text())
    failed = [item for item in report['comparisons'] if not item['passed']]
    assert report['passed'] is False
    assert [(item['case'], item['tensor'], item['where']) for item in failed] == [
        ('case_02', 'out.v_t', [0, 4, 7])
    ]


def test_what_is_not_compared_fails(flashrt, tmp_path):
    folder = Path(shutil.copytree(GOLDEN / 'preprocess', tmp_path / 'folder'))
    assert flashrt('golden', folder)[0] == 0
    (folder / 'extra.json').write_text('{}')
    code, out, _ = flashrt('golden', folder)
    assert code == 1
    assert 'not compared extra.json: all of it' in out


def test_a_model_to_come_is_refused_in_one_line(flashrt, tmp_path):
    (tmp_path / 'config.json').write_text('{"model_type": "pi0_fast"}')
    code, out, err = flashrt('golden', tmp_path)
    assert (code, out) == (2, '')
    assert err == f'error: {tmp_path}/config.json: Pi0-FAST (model_type pi0_fast) is not supported yet\n'


def test_refused_input_is_one_line_without_a_trace(flashrt, tmp_path):
    code, out, err = flashrt('golden', tmp_path / 'none')
    assert (code, out, err) == (2, '', f'error: golden: {tmp_path}/none is not a folder\n')
    code, _, err = flashrt('golden', GOLDEN / 'pi05_heads', '--backend', 'abacus')
    assert (code, err) == (2, "error: backend 'abacus' is unknown; expected cpu or cuda\n")
    assert flashrt('golden')[0] == 2  # usage
    assert flashrt('unknown')[0] == 2


def test_a_report_that_cannot_be_written_is_an_error(flashrt, tmp_path):
    code, _, err = flashrt('golden', GOLDEN / 'pi05_heads', '--json', tmp_path / 'none' / 'report.json')
    assert code == 2
    assert err.startswith('error: golden: ')


def test_a_fault_of_the_program_is_not_hidden(flashrt, monkeypatch):
    def broken(folder, options):
        raise ZeroDivisionError

    monkeypatch.setattr('flashrt_core.cli.golden.check_folder', broken)
    monkeypatch.setattr(flashrt_core.cli, 'entry_points', lambda group: list(COMMANDS.values()))
    with pytest.raises(ZeroDivisionError):
        main(['golden', 'folder'])


def test_a_document_with_other_fields_is_refused_input(flashrt, tmp_path):
    (tmp_path / 'cases.json').write_text('{"a": 5}')
    (tmp_path / 'prefix_weights.json').write_text('[]')
    code, _, errors = flashrt('golden', tmp_path)
    assert code == 2
    assert errors == f"error: {tmp_path}/cases.json: field 'a' is 5, needed an object\n"


def test_errors_of_the_core_are_one_family():
    assert issubclass(ModelNotSupportedError, Error)


def test_calibrate_then_compare(flashrt, tmp_path):
    model, file = GOLDEN / 'pi05_tiny', tmp_path / 'scales.json'
    code, out, err = flashrt('calibrate', model, model / 'case_03.safetensors', '-o', file)
    assert (code, err) == (0, 'warning: one observation says little about the range of others\n')
    assert out.startswith(f'{file}: ')
    assert 'sites from 1 samples (case_03[0]), 5 steps, recipe fp8, min_max' in out

    case = model / 'case_04.safetensors'
    how = ('--recipe', 'fp8', '--calibration', file)
    code, out, err = flashrt('compare', model, case, *how, '--free-running')
    assert (code, err) == (0, '')
    rows = [line.rsplit(maxsplit=4) for line in out.splitlines()[2:]]
    assert [row[0].strip() for row in rows] == [
        'vision.projector',
        *(f'cache.{layer}.{part}[10:66]' for layer in range(3) for part in 'kv'),
        *(f'velocity, step {i} of 5' for i in range(1, 6)),
        'actions - noise',
    ]
    assert all(0.98 < float(row[3]) < 1 for row in rows)

    code, out, _ = flashrt('compare', model, case, *how, '--free-running', '--calls')
    assert code == 0
    values = [line.split()[0] for line in out.splitlines()[2:]]
    for value in ('vision.patch', 'prompt.embed', 'denoise.2.glu', 'actions'):
        assert value in values

    calibrated_on = model / 'case_03.safetensors'
    code, out, err = flashrt('compare', model, calibrated_on, *how)
    assert (code, err) == (0, '')
    assert out.splitlines()[1] == '286 results of 114 values, 0 beyond their bounds'
    code, out, _ = flashrt('compare', model, calibrated_on, *how, '--all')
    assert code == 0
    values = {line.split()[0]: line for line in out.splitlines()[2:-1]}
    assert 'f32 -> e4m3' in values['denoise.2.glu']
    # Other inputs reach further than the ones that the scales were measured on.
    code, out, _ = flashrt('compare', model, case, *how)
    assert code == 1
    assert out.splitlines()[2].startswith('prefix.1.attn ')
    assert '1 beyond their bounds' in out


def test_compare_takes_packed_weights(flashrt, tmp_path):
    packed = tmp_path / 'packed.safetensors'
    case = GOLDEN / 'pi05_tiny' / 'case_02.safetensors'
    assert flashrt('pack', GOLDEN / 'pi05_tiny', '-o', packed, '--recipe', 'bf16')[0] == 0
    how = (
        GOLDEN / 'pi05_tiny',
        case,
        '--recipe',
        'bf16',
        '--device',
        0,
        '--tuning',
        tmp_path / 'tuning.json',
    )
    plain, read = flashrt('compare', *how, '--all'), flashrt('compare', *how, '--all', '--packed', packed)
    assert plain == read
    assert plain[0] == 0
    code, _, err = flashrt('compare', GOLDEN / 'pi05_tiny', case, '--packed', packed)
    assert code == 2
    assert 'packed' in err


@pytest.mark.parametrize(
    ('options', 'fault'),
    [
        (['--calls'], '--calls is for --free-running'),
        (['--free-running', '--all'], '--all is for the comparison'),
    ],
)
def test_compare_refuses_options_that_would_do_nothing(flashrt, options, fault):
    code, _, err = flashrt('compare', 'tiny', *options)
    assert code == 2
    assert fault in err


def test_compare_names_the_first_value_that_differs(flashrt):
    code, out, err = flashrt('compare', GOLDEN / 'pi05_tiny', '--seed', 1, '--recipe', 'bf16')
    assert (code, err) == (0, '')
    assert 'bf16 on cpu against f32 on cpu, on a random observation' in out


def test_fp8_without_scales_is_refused(flashrt):
    model = GOLDEN / 'pi05_tiny'
    code, _, err = flashrt('compare', model, model / 'case_01.safetensors', '--recipe', 'fp8')
    assert code == 2
    assert 'no calibration was given; `flashrt calibrate` makes one' in err


def test_an_output_without_a_folder_is_refused_before_the_work(flashrt, tmp_path):
    code, _, err = flashrt(
        'calibrate', GOLDEN / 'pi05_tiny', GOLDEN / 'pi05_tiny', '-o', tmp_path / 'no' / 'a.json'
    )
    assert (code, err) == (2, f'error: calibrate: folder {tmp_path}/no of the output does not exist\n')


def test_bench_prints_times_and_writes_a_file(flashrt, tmp_path):
    model, file = GOLDEN / 'pi05_tiny', tmp_path / 'bench.json'
    how = ('--warmup', 1, '--runs', 2, '--steps', 2, '--operations', '--threads', 2, '--json', file)
    code, out, err = flashrt('bench', '--random-weights', model, *how)
    assert (code, err) == (0, '')
    assert 'calibration: none' in out
    for words in ('whole call, host clock', 'replay, device clock', 'denoise: linear', 'cpu attention'):
        assert words in out
    assert json.loads(file.read_text())['format'] == 'flashrt_bench'


def test_bench_needs_one_source_of_weights(flashrt):
    code, _, err = flashrt('bench')
    assert (code, err) == (2, 'error: bench: give either --checkpoint or --random-weights\n')


@pytest.mark.parametrize(
    'option', ['--horizon', '--prompt-length', '--prompt-capacity', '--steps', '--cameras']
)
def test_bench_refuses_sizes_that_no_plan_has(flashrt, option):
    code, _, err = flashrt('bench', '--random-weights', 'pi05', option, 1_000_000_000)
    assert code == 2
    assert option in err
    assert 'Invalid value' in err


def test_bench_refuses_a_seed_beside_a_checkpoint(flashrt):
    code, _, err = flashrt('bench', '--checkpoint', 'tiny', '--seed', 3)
    assert (code, err) == (
        2,
        'error: bench: --seed 3 is for --random-weights; the weights of tiny are its own\n',
    )


@pytest.mark.parametrize(
    'arguments',
    [
        ('bench', '--random-weights', 'pi05', '--seed', -1),
        ('bench', '--random-weights', 'pi05', '--steps', 0),
        ('bench', '--random-weights', 'pi05', '--horizon', -1),
        ('bench', '--random-weights', 'pi05', '--calibrate', -1),
        ('bench', '--random-weights', 'pi05', '--device', 2**31),
        ('calibrate', 'tiny', 'samples', '-o', 'file', '--threads', -1),
        ('compare', 'pi05', '--seed', 2**64),
        ('golden', 'tiny', '--threads', 2**31),
        ('pack', 'pi05', '-o', 'file', '--seed', -1),
    ],
)
def test_numbers_out_of_range_are_refused_by_the_name_of_their_option(flashrt, arguments):
    code, _, err = flashrt(*arguments)
    assert code == 2
    assert f"'{arguments[-2]}'" in err


@pytest.mark.parametrize(
    ('option', 'value', 'needed'),
    [('--fraction', 0.5, '--estimator percentile'), ('--observations', 3, '--params')],
)
def test_calibrate_refuses_options_that_would_do_nothing(flashrt, option, value, needed):
    code, _, err = flashrt('calibrate', 'tiny', 'samples', '-o', 'file', option, value)
    assert code == 2
    assert f'{option} {value} is for' in err
    assert needed in err


def test_bench_takes_frames_by_width_and_height(flashrt):
    how = ('--random-weights', GOLDEN / 'pi05_tiny', '--warmup', 1, '--runs', 2, '--steps', 1)
    code, out, _ = flashrt('bench', *how, '--frames', '64x48')
    assert code == 0
    assert 'frames of 64 x 48 pixels, rgb8, resized by the engine' in out
    code, _, err = flashrt('bench', *how, '--frames', 'vga')
    assert (code, err) == (2, "error: bench: frames are 'vga', needed width x height, e.g. 640x480\n")


def test_bench_does_not_calibrate_unasked(flashrt):
    code, _, err = flashrt('bench', '--random-weights', GOLDEN / 'pi05_tiny', '--recipe', 'fp8')
    assert code == 2
    assert 'no calibration was given; `flashrt calibrate` makes one' in err


def test_pack_writes_what_the_engine_reads(flashrt, tmp_path):
    file = tmp_path / 'packed.safetensors'
    code, out, err = flashrt('pack', GOLDEN / 'pi05_tiny', '-o', file, '--recipe', 'bf16')
    assert (code, err) == (0, '')
    assert out.startswith(f'{file}: ')
    assert 'for recipe bf16, of weights ' in out
    how = ('--warmup', 1, '--runs', 2, '--steps', 2, '--recipe', 'bf16')
    code, out, err = flashrt('bench', '--checkpoint', GOLDEN / 'pi05_tiny', '--packed', file, *how)
    assert (code, err) == (0, '')
    code, _, err = flashrt('pack', GOLDEN / 'pi05_tiny', '-o', tmp_path / 'no' / 'a', '--recipe', 'bf16')
    assert code == 2
    assert err == f'error: pack: folder {tmp_path}/no of the output does not exist\n'


def test_bench_calibrates_on_packed_weights_where_the_checkpoint_has_none(flashrt, tmp_path):
    file = tmp_path / 'packed.safetensors'
    shutil.copy2(GOLDEN / 'pi05_tiny' / 'config.json', tmp_path)
    assert flashrt('pack', GOLDEN / 'pi05_tiny', '-o', file, '--recipe', 'fp8')[0] == 0
    how = ('--warmup', 1, '--runs', 1, '--steps', 2, '--recipe', 'fp8', '--calibrate', 1)
    code, out, err = flashrt('bench', '--checkpoint', tmp_path, '--packed', file, *how)
    assert (code, err) == (0, '')
    assert 'calibration: 1 samples (random observation 0)' in out


def test_calibrate_says_what_equalisation_moved(flashrt, tmp_path):
    model = GOLDEN / 'pi05_tiny'
    how = '-o', tmp_path / 'scales.json', '--threads', 2
    code, out, _ = flashrt('calibrate', model, model / 'case_00.safetensors', *how, '--equalise', 0.5)
    assert code == 0
    words = re.search(r'equalised: (\d+) of (\d+) channels moved, by up to (\d+);', out)
    moved, channels, most = map(int, words.groups())
    assert 0 < moved < channels
    assert most >= 2
    code, out, _ = flashrt('calibrate', model, model / 'case_00.safetensors', *how)
    assert code == 0
    assert 'equalised' not in out
