# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The parameters of the policy node: one table, read into frozen dataclasses, all faults at once."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_table import REQUIRED, Key, ParameterFaults, TableReader, key, keys_of, markdown
from flashrt_ros.topic_names import stream_faults, topic_faults

OUTPUT_TYPES = ('joint_trajectory', 'float64_multi_array', 'joint_state')
CLOCKS = ('header', 'receive')
RELIABILITIES = ('best_effort', 'reliable')
_MAX_FRAME_SIDE = 4096  # as in flashrt_core/base/frame_descriptor.hpp


@dataclass(frozen=True, kw_only=True)
class CameraParameters:
    """One camera slot of the model and the topic that fills it."""

    slot: str
    topic: str = key('cameras.<slot>.topic', 'topic of this camera slot')
    transport: str = key(
        'cameras.<slot>.transport',
        'raw: sensor_msgs/Image, compressed: sensor_msgs/CompressedImage',
        default='raw',
        choices=('raw', 'compressed'),
    )
    rotation: int = key(
        'cameras.<slot>.rotation',
        'how far the picture is turned, counter-clockwise, to lie as in the training data',
        unit='degrees',
        choices=(0, 90, 180, 270),
    )
    channel_order: str = key(
        'cameras.<slot>.channel_order',
        'colour order of 8UC3 and 8UC4 pictures, whose label does not say it; empty: they are refused',
        default='',
        choices=('', 'rgb', 'bgr'),
    )
    stamp: str = key(
        'cameras.<slot>.stamp',
        'what the age counts from: the header stamp, or the time of receipt for drivers that set no stamp',
        default='header',
        choices=CLOCKS,
    )
    reliability: str = key(
        'cameras.<slot>.reliability',
        'QoS of the subscription; best_effort receives from both kinds of publisher',
        default='best_effort',
        choices=RELIABILITIES,
    )


@dataclass(frozen=True, kw_only=True)
class OutputParameters:
    """One controller and the joints it commands."""

    name: str
    topic: str = key('outputs.<output>.topic', 'topic of the controller')
    type: str = key(
        'outputs.<output>.type',
        'message type; empty: as output.type says',
        default='',
        choices=('', *OUTPUT_TYPES),
    )
    joints: tuple[str, ...] = key(
        'outputs.<output>.joints', 'names from joints.names, in the order of the controller'
    )
    quantity: str = key('outputs.<output>.quantity', 'what the numbers are', choices=('position', 'velocity'))


@dataclass(frozen=True)
class GripperParameters:
    """How one gripper column of the model maps to the robot."""

    joint: str
    model_one: str  # what 1 means to the model: 'open', 'closed', or 'robot_units' for no mapping
    open: float  # robot value of the open gripper
    closed: float


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """A checked configuration of the policy node and of offline replay."""

    model_config: str = key('model.config', 'model family', choices=('pi05', 'pi0'))
    checkpoint: str = key('model.checkpoint', 'folder with config.json and *.safetensors')
    tokenizer: str = key('model.tokenizer', 'SentencePiece model file')
    statistics: str = key(
        'model.statistics',
        'norm_stats.json, or a folder with the processor files of lerobot; this or model.asset_id',
        default='',
    )
    asset_id: str = key(
        'model.asset_id', 'statistics at <checkpoint>/assets/<asset_id>/norm_stats.json', default=''
    )
    origin: str = key(
        'model.origin', 'whose training pipeline the checkpoint comes from', choices=('openpi', 'lerobot')
    )
    platform: str = key(
        'model.platform',
        'joint and camera conventions of the training data',
        choices=('none', 'aloha', 'libero', 'droid'),
    )
    adapt_to_pi: bool | None = key(
        'model.adapt_to_pi',
        'joint signs and gripper maps of the Pi base models; required for platform aloha',
        default=None,
    )
    resize: str = key(
        'model.resize',
        'interpolation of the training pipeline: openpi is antialiased, lerobot is plain bilinear',
        choices=('openpi', 'lerobot', 'lerobot_0_4'),
    )
    fit: str = key(
        'model.fit',
        'letterbox keeps the aspect ratio and pads with black, stretch does not',
        choices=('letterbox', 'stretch'),
    )
    normalisation: str = key(
        'model.normalisation',
        'of state and actions; empty: as the processor files of a lerobot checkpoint say',
        default='',
        choices=('', 'identity', 'zscore', 'quantile', 'min_max', 'quantile10'),
    )
    state_in_prompt: bool = key('model.state_in_prompt', 'the joint values are written into the prompt')
    state_text_width: int = key(
        'model.state_text_width',
        '32 for checkpoints of lerobot 0.4 or older, which wrote padding into the prompt; 0: the joints only',
        default=0,
        low=0,
        high=64,
    )
    prompt_capacity: int = key('model.prompt_capacity', 'longest prompt', unit='tokens', low=1, high=4096)
    denoise_steps: int = key(
        'model.denoise_steps',
        '0: as the checkpoint says; required if it does not',
        default=0,
        low=0,
        high=1000,
    )
    horizon: int = key('model.horizon', '0: as the checkpoint says', unit='rows', default=0, low=0, high=1000)
    backend: str = key(
        'model.backend',
        'what runs the model: the processor, or an NVIDIA GPU',
        default='cpu',
        choices=('cpu', 'cuda'),
    )
    device: int = key(
        'model.device', 'index of the GPU, as CUDA counts them; backend cuda', default=0, low=0, high=63
    )
    recipe: str = key(
        'model.recipe',
        'precision: f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file',
        default='f32',
    )
    calibration: str = key(
        'model.calibration',
        'scales of the activations, which `flashrt calibrate` writes here; required by the fp8 recipes',
        default='',
    )
    packed: str = key(
        'model.packed',
        'weights as the recipe reads them, made by `flashrt pack` for a fast start; empty: the checkpoint is '
        'read',
        default='',
    )
    tuning: str = key(
        'model.tuning',
        'file that keeps which algorithms are fastest on this GPU, made where there is none; empty: they are '
        'timed at every start; backend cuda',
        default='',
    )
    threads: int = key(
        'model.threads', 'processor cores to use; 0: all of the machine', default=0, low=0, high=1024
    )
    allow_degenerate_statistics: bool = key(
        'model.allow_degenerate_statistics',
        'run although a column of the statistics has no width',
        default=False,
    )
    seed: int = key('model.seed', 'seed of the noise', default=0, low=0, high=2**63 - 1)

    prompt: str = key('prompt', 'the task in words, until one arrives on ~/prompt', live=True)
    control_rate_hz: float = key('control_rate_hz', 'rate of the commands', unit='Hz', low=0.1, high=1000.0)
    inference_rate_hz: float = key(
        'inference_rate_hz',
        'highest rate of inference; 0: as fast as the policy answers',
        unit='Hz',
        default=0.0,
        low=0.0,
        high=1000.0,
    )
    dry_run: bool = key('dry_run', 'compute every command and publish none', default=True)
    start_on_activate: bool = key(
        'start_on_activate', 'begin commanding with activation, without ~/start', default=False
    )
    max_clock_skew_s: float = key(
        'max_clock_skew_s',
        'a stamp further in the future than this is refused',
        unit='s',
        default=0.1,
        low=0.0,
        high=10.0,
    )

    camera_names: tuple[str, ...] = key(
        'cameras.names', 'camera slots that the robot fills, by the names that the model gives them'
    )
    camera_max_age_s: float = key(
        'cameras.max_age_s', 'an older picture stops inference', unit='s', default=0.25, low=0.001, high=60.0
    )
    camera_max_spread_s: float = key(
        'cameras.max_spread_s',
        'largest difference between the stamps of two cameras',
        unit='s',
        default=0.1,
        low=0.0,
        high=60.0,
    )
    camera_max_side_px: int = key(
        'cameras.max_side_px',
        'a picture with a longer side is refused before it is decoded',
        unit='pixels',
        default=4096,
        low=1,
        high=65535,
    )
    camera_max_image_bytes: int = key(
        'cameras.max_image_bytes',
        'above 0, pictures of up to so many bytes go to the engine as they come and are resized where the '
        'model runs; 0: they are resized by NumPy',
        unit='bytes',
        default=0,
        low=0,
        high=1 << 28,
    )

    joint_topics: tuple[str, ...] = key(
        'joints.topics', 'sensor_msgs/JointState topics, merged by joint name', default=('joint_states',)
    )
    joint_names: tuple[str, ...] = key(
        'joints.names',
        'columns of the state and of the actions in the order of the model, without the prefix',
    )
    joint_prefix: str = key('joints.prefix', 'what the robot writes before each name', default='')
    joint_lower: tuple[float, ...] = key('joints.lower', 'lower limit of each joint', unit='rad or m')
    joint_upper: tuple[float, ...] = key('joints.upper', 'upper limit of each joint', unit='rad or m')
    joint_max_age_s: float = key(
        'joints.max_age_s',
        'an older joint value stops inference',
        unit='s',
        default=0.1,
        low=0.001,
        high=60.0,
    )
    joint_stamp: str = key('joints.stamp', 'as for cameras', default='header', choices=CLOCKS)
    joint_reliability: str = key(
        'joints.reliability', 'as for cameras', default='best_effort', choices=RELIABILITIES
    )

    gripper_names: tuple[str, ...] = key('grippers.names', 'which of joints.names are grippers; [] for none')
    gripper_model_one: tuple[str, ...] = key(
        'grippers.model_one',
        'per gripper, what 1 means to the model; robot_units: the model speaks the unit of the robot',
        default=(),
        choices=('open', 'closed', 'robot_units'),
    )
    gripper_open: tuple[float, ...] = key(
        'grippers.open', 'per gripper, value of the robot when open', default=()
    )
    gripper_closed: tuple[float, ...] = key(
        'grippers.closed', 'per gripper, value of the robot when closed', default=()
    )

    representation: str = key(
        'actions.representation',
        'what a row of actions is; end_effector runs in offline replay only',
        choices=('joint_position', 'joint_velocity', 'end_effector'),
    )
    delta_mask: tuple[int, ...] | None = key(
        'actions.delta_mask',
        'which columns are relative to the state: [6, -1] is 6 relative, 1 absolute; [-7] is 7 absolute; '
        'required for openpi, a lerobot checkpoint says it',
        default=None,
    )
    row_period_s: float = key(
        'actions.row_period_s', 'time from one row to the next', unit='s', low=0.001, high=10.0
    )
    starvation_limit_s: float = key(
        'actions.starvation_limit_s',
        'commanding ends when no row has been left to play for this long',
        unit='s',
        default=1.0,
        low=0.0,
        high=60.0,
    )

    output_names: tuple[str, ...] = key('outputs.names', 'names of the controllers, one outputs.<name> each')
    output_type: str = key(
        'output.type',
        'message type of outputs that name none',
        default='joint_trajectory',
        choices=OUTPUT_TYPES,
    )
    output_max_horizon_s: float = key(
        'output.max_horizon_s',
        'how far ahead a trajectory reaches',
        unit='s',
        default=0.4,
        low=0.001,
        high=60.0,
    )

    cameras: tuple[CameraParameters, ...]  # in the order of cameras.names
    outputs: tuple[OutputParameters, ...]
    grippers: tuple[GripperParameters, ...]


def read_parameters(values: Mapping[str, object], node_name: str) -> tuple[Parameters, list[str]]:
    """The configuration in a flat mapping, and a warning per key that is not known.

    Raises ParameterFaults with every fault; `node_name` is the full name the values were looked up for.
    """
    reader = TableReader(values)
    fields = reader.read(Parameters)
    cameras = {name: reader.read(CameraParameters, name) for name in fields.get('camera_names', ())}
    outputs = {name: reader.read(OutputParameters, name) for name in fields.get('output_names', ())}
    faults = [
        *reader.faults,
        *_contradictions(fields),
        *topic_faults(_topics(fields, cameras, outputs), node_name),
        *stream_faults(
            {
                'cameras.names': fields.get('camera_names', ()),
                'joints.topics': fields.get('joint_topics', ()),
            }
        ),
        *_output_contradictions(fields, outputs),
    ]
    if not any(row.name in values for row in static_keys() if row.default is REQUIRED):
        faults.insert(0, f'no parameter arrived; is the parameter file written for a node {node_name}?')
    if faults:
        raise ParameterFaults(f'parameters of {node_name}', [*faults, *reader.unknown()])
    return (
        Parameters(
            **fields,
            cameras=tuple(CameraParameters(slot=name, **read) for name, read in cameras.items()),
            outputs=tuple(
                OutputParameters(name=name, **(read | {'type': read['type'] or fields['output_type']}))
                for name, read in outputs.items()
            ),
            grippers=tuple(
                GripperParameters(*columns)
                for columns in zip(
                    fields['gripper_names'],
                    fields['gripper_model_one'],
                    fields['gripper_open'],
                    fields['gripper_closed'],
                    strict=True,
                )
            ),
        ),
        reader.unknown(),
    )


def load_parameters_file(path: str | Path, node_name: str = '/policy') -> tuple[Parameters, list[str]]:
    """read_parameters of a ROS parameter file, without ROS."""
    return read_parameters(read_parameter_file(path, node_name), node_name)


def parameters_table() -> str:
    """The table in Markdown, as in docs/parameters.md."""
    return markdown(Parameters, CameraParameters, OutputParameters)


def static_keys() -> list[Key]:
    """The keys whose names do not depend on other keys."""
    return [row for _, row, _ in keys_of(Parameters)]


def live_keys() -> dict[str, tuple[Key, object]]:
    """Name -> key and type of those that may change while the node is active."""
    return {row.name: (row, kind) for _, row, kind in keys_of(Parameters) if row.live}


def _contradictions(fields: Mapping[str, object]) -> Iterator[str]:
    """Values that are fine alone and wrong together; a rule is skipped where one of its values is faulty."""
    for names, rule in _RULES:
        if all(name in fields for name in names):
            yield from rule(*(fields[name] for name in names))


def _dry_run_only(dry_run: bool) -> Iterator[str]:
    if not dry_run:
        yield (
            'dry_run is false, but this version has no joint limit check and no stop latch yet, '
            'so it publishes no command; set dry_run: true'
        )


def _one_source_of_statistics(statistics: str, asset_id: str, origin: str) -> Iterator[str]:
    if statistics and asset_id:
        yield f"model.statistics '{statistics}' and model.asset_id '{asset_id}' exclude each other; give one"
    if not statistics and not asset_id and origin == 'openpi':
        yield 'model.statistics or model.asset_id is missing: one of them must name the statistics'


def _fp8_is_calibrated(recipe: str, calibration: str) -> Iterator[str]:
    if recipe in ('fp8', 'fp8_f16', 'fp8_mixed') and not calibration:
        yield (
            f'model.calibration is missing: recipe {recipe} needs the scales of the activations; name the '
            'file that `flashrt calibrate RECORDING --params THIS_FILE` is to write'
        )


def _aloha_says_adapt_to_pi(platform: str, adapt_to_pi: bool | None) -> Iterator[str]:
    if platform == 'aloha' and adapt_to_pi is None:
        yield 'model.adapt_to_pi is missing: platform aloha needs true or false'


def _openpi_says(origin: str, normalisation: str, delta_mask: tuple | None) -> Iterator[str]:
    if origin == 'openpi' and not normalisation:
        yield 'model.normalisation is missing: openpi checkpoints do not say it (pi05 quantile, pi0 zscore)'
    if origin == 'openpi' and delta_mask is None:
        yield 'actions.delta_mask is missing: an openpi checkpoint does not say which actions are relative'


def _not_empty(key_name: str):
    def rule(names: tuple[str, ...]) -> Iterator[str]:
        if not names:
            yield f'{key_name} is empty'

    return rule


def _names_once(key_name: str):
    def rule(names: tuple[str, ...]) -> Iterator[str]:
        yield from _not_empty(key_name)(names)
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"{key_name} names '{name}' {names.count(name)} times"

    return rule


def _limits(names: tuple[str, ...], lower: tuple[float, ...], upper: tuple[float, ...]) -> Iterator[str]:
    for key_name, values in (('joints.lower', lower), ('joints.upper', upper)):
        if len(values) != len(names):
            yield f'{key_name} has {len(values)} values, joints.names has {len(names)}'
    for name, low, high in zip(names, lower, upper, strict=False):
        if not low < high:
            yield f'joints.lower is {low} and joints.upper is {high} for {name}: lower must be below upper'


def _grippers(
    joints: tuple[str, ...], names: tuple[str, ...], ones: tuple[str, ...], opens: tuple, closeds: tuple
) -> Iterator[str]:
    for name in names:
        if name not in joints:
            yield f"grippers.names: '{name}' is not in joints.names"
    for key_name, values in (('model_one', ones), ('open', opens), ('closed', closeds)):
        if len(values) != len(names):
            yield f'grippers.{key_name} has {len(values)} values, grippers.names has {len(names)}'
    for name, opened, closed in zip(names, opens, closeds, strict=False):
        if opened == closed:
            yield f'grippers.open and grippers.closed are both {opened} for {name}'


def _delta_mask(mask: tuple[int, ...] | None, joints: tuple[str, ...]) -> Iterator[str]:
    if mask is None:
        return
    columns = sum(abs(count) for count in mask)
    if columns != len(joints):
        yield f'actions.delta_mask {list(mask)} covers {columns} columns, joints.names has {len(joints)}'


def _sides_that_an_engine_resizes(max_image_bytes: int, max_side: int) -> Iterator[str]:
    if max_image_bytes and max_side > _MAX_FRAME_SIDE:
        yield (
            f'cameras.max_side_px is {max_side}, but with cameras.max_image_bytes the engine resizes '
            f'pictures, whose sides may have {_MAX_FRAME_SIDE} pixels'
        )


_RULES = (
    (('dry_run',), _dry_run_only),
    (('statistics', 'asset_id', 'origin'), _one_source_of_statistics),
    (('recipe', 'calibration'), _fp8_is_calibrated),
    (('platform', 'adapt_to_pi'), _aloha_says_adapt_to_pi),
    (('origin', 'normalisation', 'delta_mask'), _openpi_says),
    (('camera_names',), _names_once('cameras.names')),
    (('camera_max_image_bytes', 'camera_max_side_px'), _sides_that_an_engine_resizes),
    (('joint_names',), _names_once('joints.names')),
    (('joint_topics',), _not_empty('joints.topics')),
    (('output_names',), _names_once('outputs.names')),
    (('joint_names', 'joint_lower', 'joint_upper'), _limits),
    (('joint_names', 'gripper_names', 'gripper_model_one', 'gripper_open', 'gripper_closed'), _grippers),
    (('delta_mask', 'joint_names'), _delta_mask),
)


def _topics(
    fields: Mapping[str, object],
    cameras: Mapping[str, Mapping[str, object]],
    outputs: Mapping[str, Mapping[str, object]],
) -> Iterator[tuple[str, str]]:
    """(parameter, topic) of every topic that was given."""
    for i, topic in enumerate(fields.get('joint_topics', ())):
        yield f'joints.topics[{i}]', topic
    for kind, parts in (('cameras', cameras), ('outputs', outputs)):
        for name, read in parts.items():
            if 'topic' in read:
                yield f'{kind}.{name}.topic', read['topic']


def _output_contradictions(
    fields: Mapping[str, object], outputs: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """Together the outputs name every joint exactly once, each in a quantity that the actions hold."""
    if not outputs or not all('joints' in read and 'quantity' in read for read in outputs.values()):
        return
    if not all(name in fields for name in ('joint_names', 'gripper_names', 'representation')):
        return
    for output, read in outputs.items():
        if not read['joints']:
            yield f'outputs.{output}.joints is empty; name its joints, or leave it out of outputs.names'
    named = list(itertools.chain.from_iterable(read['joints'] for read in outputs.values()))
    for joint in dict.fromkeys(named):
        if joint not in fields['joint_names']:
            yield f"outputs name '{joint}', which is not in joints.names"
        if named.count(joint) > 1:
            yield f"outputs name '{joint}' {named.count(joint)} times, wanted once"
    for joint in fields['joint_names']:
        if joint not in named:
            yield f"no output names '{joint}'"
    if fields['representation'] == 'end_effector':
        return
    for output, read in outputs.items():
        for joint in read['joints']:
            is_velocity = (
                fields['representation'] == 'joint_velocity' and joint not in fields['gripper_names']
            )
            wanted = 'velocity' if is_velocity else 'position'
            if read['quantity'] != wanted:
                yield (
                    f"outputs.{output}.quantity is {read['quantity']}, but the actions of '{joint}' are "
                    f'{wanted} values (actions.representation {fields["representation"]})'
                )


if __name__ == '__main__':
    print(parameters_table(), end='')
