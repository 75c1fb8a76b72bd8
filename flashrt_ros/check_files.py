# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether the files of a checkpoint belong together and fit the robot, without reading its weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from flashrt_core.engine import ModelConfig
from flashrt_core.errors import Error
from flashrt_core.groot.action_codec import action_codec
from flashrt_core.groot.embodiment import read_embodiment
from flashrt_core.groot.state_codec import state_codec
from flashrt_core.groot.tokenizer import QwenTokenizer
from flashrt_core.policy import FlashPolicy
from flashrt_core.statistics import checkpoint_statistics, read_norm_stats
from flashrt_core.tokenizer import Tokenizer
from flashrt_ros.check_findings import Finding, fail, guarded, ok, size, skip, warn
from flashrt_ros.joint_limits import limits_of
from flashrt_ros.load import check_fit
from flashrt_ros.parameter_table import ParameterFaults
from flashrt_ros.parameters import FAMILIES, GROOT, Parameters
from flashrt_ros.training_range import compare_ranges
from flashrt_ros.without_weights import policy_without_weights


class FileCheck:
    """One check after the other; what a later one needs of an earlier one is kept here."""

    def __init__(self, parameters: Parameters) -> None:
        self.weights: int | None = None  # numbers of the model, once its files have been found whole
        self.policy: FlashPolicy | None = None  # without its weights
        self._parameters = parameters
        self._config: ModelConfig | None = None
        self._failed: list[str] = []

    @property
    def _is_groot(self) -> bool:
        return FAMILIES[self._parameters.model_config] == GROOT

    def findings(self) -> Iterator[Finding]:
        parts = {
            'checkpoint': self._checkpoint,
            'weights': self._weights,
            'statistics': self._statistics,
            'tokenizer': self._tokenizer,
            'policy': self._policy,
            'token budget': self._token_budget,
            'training range': self._training_range,
        }
        for subject, part in parts.items():
            for finding in guarded(subject, part()):
                if finding.level == 'FAIL':
                    self._failed.append(subject)
                yield finding

    def _checkpoint(self) -> Iterator[Finding]:
        """config.json."""
        from flashrt_core._core import read_model_config

        given = self._parameters
        config = read_model_config(given.checkpoint)
        if config.model_type != given.model_config:
            yield fail(
                'checkpoint',
                f'{given.checkpoint} holds a {config.model_type}, model.config says {given.model_config}; '
                'correct the one that is wrong',
            )
            return
        self._config = config
        about = f'{given.checkpoint}: {config.model_type}'
        if not self._is_groot:  # whose embodiments say it
            rows = given.horizon or config.horizon
            about += f', pictures of {config.image_size} pixels, chunks of {rows} rows'
        yield ok('checkpoint', f'{about}, {config.vocab_size} tokens known')

    def _weights(self) -> Iterator[Finding]:
        """Headers and sizes of all files; whether the numbers are finite is seen when they are read."""
        from flashrt_core._core import check_weight_files

        given = self._parameters
        if self._config is None:
            yield skip('weights', 'config.json of the checkpoint could not be used')
            return
        for key, path, remedy in (
            ('model.calibration', given.calibration, 'flashrt calibrate'),
            ('model.packed', given.packed, 'flashrt pack'),
        ):
            if path and not Path(path).is_file():
                yield fail('weights', f'{key} {path} does not exist; `{remedy}` writes it')
        if given.packed:  # the weights of the checkpoint are not read then
            yield skip('weights', f'{given.packed} is checked when it is read')
            return
        found = check_weight_files(given.checkpoint, self._config)
        self.weights = found['elements']
        yield ok(
            'weights',
            f'{found["tensors"]} tensors, none missing, {size(found["bytes"])} in {found["files"]} file(s)',
        )

    def _statistics(self) -> Iterator[Finding]:
        """Of an openpi checkpoint or of an embodiment of GR00T; those of lerobot are part of the policy."""
        given = self._parameters
        if self._is_groot:
            yield self._embodiment()
            return
        if given.origin != 'openpi':
            return
        explicit = Path(given.statistics) if given.statistics else None
        path = checkpoint_statistics(Path(given.checkpoint), given.asset_id or None, explicit)
        file = read_norm_stats(path)
        joints = len(given.joint_names)
        columns = f'{path}: state {file.state.columns} columns, actions {file.actions.columns}'
        actions = joints if given.representation != 'end_effector' else 0
        if file.state.columns < joints or file.actions.columns < actions:
            yield fail(
                'statistics', f'{columns}; joints.names has {joints}: this is the file of another robot'
            )
            return
        padding = '' if file.state.columns == joints else f', of which the first {joints} are used'
        yield ok('statistics', f'{columns}{padding}')

    def _embodiment(self) -> Finding:
        given = self._parameters
        embodiment = read_embodiment(Path(given.checkpoint), given.embodiment_tag)
        state = state_codec(embodiment)
        actions = action_codec(embodiment, state)
        about = (
            f'{embodiment.sources["embodiment"]}: state {_widths(state.columns)}; actions '
            f'{_widths(actions.columns)}; chunks of {embodiment.horizon} rows'
        )
        if state.state_dim != len(given.joint_names):
            return fail(
                'statistics',
                f'{about}; the state has {state.state_dim} columns, joints.names {len(given.joint_names)}; '
                'name the joints of these keys, in this order',
            )
        return ok('statistics', about)

    def _tokenizer(self) -> Iterator[Finding]:
        make = QwenTokenizer if self._is_groot else Tokenizer
        tokenizer = make(Path(self._parameters.tokenizer))
        about = f'{tokenizer.path}: {tokenizer.vocab_size} pieces'
        if self._config and tokenizer.vocab_size > self._config.vocab_size:
            yield fail(
                'tokenizer',
                f'{about}, the model knows {self._config.vocab_size} tokens: it does not belong to this '
                'checkpoint',
            )
            return
        yield ok('tokenizer', f'{about}, sha256 {tokenizer.sha256[:12]}')

    def _policy(self) -> Iterator[Finding]:
        """View slots, widths of the statistics, and everything else that loading would refuse."""
        if self._parameters.representation == 'end_effector':
            yield fail(
                'policy',
                'end_effector actions are no joint commands: they run in offline replay, not in the node',
            )
        needed = [subject for subject in ('checkpoint', 'statistics', 'tokenizer') if subject in self._failed]
        if needed:
            yield skip('view slots', f'{", ".join(needed)} failed')
            return
        policy = policy_without_weights(self._parameters)
        try:
            check_fit(policy, self._parameters)
        except ParameterFaults as faults:
            for fault in faults.faults:
                yield fail('policy', fault)
            return
        self.policy = policy
        slots = [
            camera.slot if camera.name == camera.slot else f'{camera.name} as {camera.slot}'
            for camera in policy.pipeline.cameras
        ]
        yield ok('view slots', f'in the order of the model: {", ".join(slots)}')
        if 'letterbox' in policy.pipeline.sources:
            yield ok('letterbox', policy.pipeline.sources['letterbox'])
        if columns := policy.spec.state_columns:
            pairs = zip(columns, self._parameters.joint_names, strict=True)
            yield ok('joints', ', '.join(f'{column} is {joint}' for column, joint in pairs))
        if self._parameters.action_joints:
            pairs = zip(policy.spec.action_columns, self._parameters.action_joints, strict=True)
            yield ok('commanded joints', ', '.join(f'{column} moves {joint}' for column, joint in pairs))
        for text in policy.pipeline.warnings:
            yield warn('statistics', text)
        yield ok('normalisation', policy.pipeline.sources['normalisation'])
        for text in _chunking_faults(policy, self._parameters):
            yield fail('policy', text)

    def _token_budget(self) -> Iterator[Finding]:
        if self.policy is None:
            yield skip('token budget', 'the policy could not be put together')
            return
        try:
            self.policy.set_prompt(self._parameters.prompt)
        except Error as fault:
            yield fail('token budget', str(fault))
            return
        prompt = self.policy.prompt
        longest = prompt.counted(self.policy.longest_prompt(self._parameters.prompt))
        state = ', with the longest state text' if prompt.uses_state else ''
        yield ok(
            'token budget',
            f'the prompt takes {longest} of {self.policy.spec.prompt_capacity} tokens{state}',
        )

    def _training_range(self) -> Iterator[Finding]:
        """Whether the limits leave the policy the room that it was trained in."""
        given = self._parameters
        if self.policy is None:
            yield skip('training range', 'the policy could not be put together')
        elif given.representation == 'end_effector':
            yield skip('training range', 'actions.representation is end_effector, limits are those of joints')
        elif given.joint_limits != 'parameters':
            yield skip('training range', 'the limits come from robot_description when the node is configured')
        else:
            warnings = compare_ranges(given, limits_of(given), self.policy.action_range())
            for text in warnings:
                yield warn('training range', text)
            if not warnings:
                yield ok('training range', 'no joint was trained to go beyond its limits, as far as is known')


def _widths(columns: Mapping[str, slice]) -> str:
    return ', '.join(f'{name} {places.stop - places.start}' for name, places in columns.items())


def _chunking_faults(policy: FlashPolicy, parameters: Parameters) -> Iterator[str]:
    """What the node would refuse after the weights have been read."""
    if parameters.chunk_mode != 'rtc':
        return
    if parameters.chunk_rtc == 'guided' and policy.pipeline.guidance is None:
        yield (
            'chunk.mode is rtc, and this checkpoint does not say how to guide; set chunk.rtc_schedule, '
            'chunk.rtc_execution_horizon and chunk.rtc_max_weight'
        )
    if parameters.chunk_rtc == 'hard' and not policy.pipeline.max_hard_delay:
        yield (
            'chunk.rtc is hard, and this checkpoint was not trained for it (rtc_training_max_delay); set '
            'chunk.rtc: guided'
        )
