# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""package:// in the paths of a parameter file: of this package, of others that are sourced, of none."""

from pathlib import Path

import pytest
from fake_policy import NODE, values

from flashrt_core.errors import Error
from flashrt_ros import package_files
from flashrt_ros.load import policy_settings
from flashrt_ros.package_files import package_folder, resolved
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import load_parameters_file, read_parameters

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize('path', ['', 'f32', 'out/model', '/opt/model', 'a/package://b'])
def test_other_paths_are_left_alone(path: str):
    assert resolved(path) == path


def test_this_package_is_used_from_its_sources():
    assert package_folder() == ROOT
    assert resolved('package://flashrt_ros/config/recipes') == str(ROOT / 'config' / 'recipes')
    assert resolved('package://flashrt_ros') == str(ROOT)


def test_an_installed_module_finds_the_files_of_its_own_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another one is sourced, too."""
    for prefix in ('own', 'other'):
        (tmp_path / prefix / 'share' / 'flashrt_ros').mkdir(parents=True)
    module = tmp_path / 'own' / 'local' / 'lib' / 'python3.12' / 'dist-packages' / 'flashrt_ros' / 'module.py'
    monkeypatch.setattr(package_files, '__file__', str(module))
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path / 'other'))
    assert package_folder() == tmp_path / 'own' / 'share' / 'flashrt_ros'


def test_the_first_sourced_package_of_a_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for prefix in ('a', 'b'):
        (tmp_path / prefix / 'share' / 'my_arm').mkdir(parents=True)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'{tmp_path}/empty:{tmp_path}/a:{tmp_path}/b')
    assert resolved('package://my_arm/models/one') == f'{tmp_path}/a/share/my_arm/models/one'
    with pytest.raises(Error, match=f"no package 'my_leg': none of {tmp_path}/empty/share/my_leg"):
        resolved('package://my_leg/models')


def test_every_path_of_a_parameter_file_may_name_a_package():
    keys = ('checkpoint', 'tokenizer', 'statistics', 'recipe', 'calibration', 'packed')
    given = values() | {f'model.{key}': f'package://flashrt_ros/{key}' for key in keys}
    settings = policy_settings(read_parameters(given, NODE)[0])
    assert {str(getattr(settings, key)) for key in keys} == {str(ROOT / key) for key in keys}


def test_a_package_that_is_missing_is_a_fault_among_the_others():
    given = values(prompt='') | {'model.tokenizer': 'package://no_such_package/t.model'}
    with pytest.raises(ParameterFaults) as raised:
        read_parameters(given, NODE)
    tokenizer, prompt = sorted(raised.value.faults)
    assert "model.tokenizer is 'package://no_such_package/t.model': there is no package" in tokenizer
    assert prompt.startswith('prompt is blank')


def test_the_shipped_policy_is_found_from_its_parameter_file():
    parameters, _ = load_parameters_file(ROOT / 'config' / 'pi05_tabletop.yaml')
    for path in (parameters.checkpoint, parameters.tokenizer, parameters.statistics):
        assert Path(path).exists()
    assert not parameters.dry_run
