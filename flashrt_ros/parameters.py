# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The parameters of the policy node: one table, read into frozen dataclasses, all faults at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashrt_ros.parameter_file import read_parameter_file
from flashrt_ros.parameter_rules import camera_contradictions, contradictions, output_contradictions
from flashrt_ros.parameter_table import REQUIRED, Key, ParameterFaults, TableReader, key, keys_of, markdown
from flashrt_ros.topic_names import stream_faults, topic_faults

PI, GROOT = 'Pi', 'GR00T'
FAMILIES = {'pi05': PI, 'pi0': PI, 'groot_n16': GROOT}  # model.config -> whose keys it takes
OUTPUT_TYPES = ('joint_trajectory', 'float64_multi_array', 'joint_state')
CLOCKS = ('header', 'receive')
RELIABILITIES = ('best_effort', 'reliable')
# Parameters that every ROS node has: they are no keys of this table, and no faults in its files.
OF_ROS = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')


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
    height: int = key(
        'cameras.<slot>.height',
        'of its pictures, before rotation: the model is compiled for their shape; model.letterbox off',
        unit='pixels',
        default=0,
        low=0,
        high=65535,
        family=GROOT,
    )
    width: int = key(
        'cameras.<slot>.width',
        'as cameras.<slot>.height',
        unit='pixels',
        default=0,
        low=0,
        high=65535,
        family=GROOT,
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
        'outputs.<output>.joints',
        'names from actions.joints, or without it from joints.names, in the order of the controller',
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
    """A checked configuration of the policy node and of offline replay.

    Required keys of another family than that of model.config are None, the others have their default.
    """

    model_config: str = key('model.config', 'model family', choices=tuple(FAMILIES))
    checkpoint: str = key('model.checkpoint', 'folder with config.json and *.safetensors', is_path=True)
    tokenizer: str = key(
        'model.tokenizer',
        'Pi: SentencePiece model file; GR00T: folder with vocab.json, merges.txt and added_tokens.json',
        is_path=True,
    )
    embodiment_tag: str | None = key(
        'model.embodiment_tag',
        'whose keys, statistics and slot of the model are used; the files of the checkpoint list them',
        family=GROOT,
    )
    letterbox: str = key(
        'model.letterbox',
        'pictures are padded to squares; auto: as the code of the model does now, which is on; off for the '
        'base checkpoint and for what was trained before 24 February 2026',
        default='auto',
        choices=('auto', 'on', 'off'),
        family=GROOT,
    )
    allow_untrained: bool = key(
        'model.allow_untrained',
        'run an embodiment whose weights look as if they were never trained',
        default=False,
        family=GROOT,
    )
    statistics: str = key(
        'model.statistics',
        'norm_stats.json, or a folder with the processor files of lerobot; this or model.asset_id',
        default='',
        family=PI,
        is_path=True,
    )
    asset_id: str = key(
        'model.asset_id',
        'statistics at <checkpoint>/assets/<asset_id>/norm_stats.json',
        default='',
        family=PI,
    )
    origin: str | None = key(
        'model.origin',
        'whose training pipeline the checkpoint comes from',
        choices=('openpi', 'lerobot'),
        family=PI,
    )
    platform: str | None = key(
        'model.platform',
        'joint and camera conventions of the training data',
        choices=('none', 'aloha', 'libero', 'droid'),
        family=PI,
    )
    adapt_to_pi: bool | None = key(
        'model.adapt_to_pi',
        'joint signs and gripper maps of the Pi base models; required for platform aloha',
        default=None,
        family=PI,
    )
    resize: str | None = key(
        'model.resize',
        'interpolation of the training pipeline: openpi is antialiased, lerobot is plain bilinear',
        choices=('openpi', 'lerobot', 'lerobot_0_4'),
        family=PI,
    )
    fit: str | None = key(
        'model.fit',
        'letterbox keeps the aspect ratio and pads with black, stretch does not',
        choices=('letterbox', 'stretch'),
        family=PI,
    )
    normalisation: str = key(
        'model.normalisation',
        'of state and actions; empty: as the processor files of a lerobot checkpoint say',
        default='',
        choices=('', 'identity', 'zscore', 'quantile', 'min_max', 'quantile10'),
        family=PI,
    )
    state_in_prompt: bool | None = key(
        'model.state_in_prompt', 'the joint values are written into the prompt', family=PI
    )
    state_text_width: int = key(
        'model.state_text_width',
        '32 for checkpoints of lerobot 0.4 or older, which wrote padding into the prompt; 0: the joints only',
        default=0,
        low=0,
        high=64,
        family=PI,
    )
    prompt_capacity: int = key('model.prompt_capacity', 'longest prompt', unit='tokens', low=1, high=4096)
    denoise_steps: int = key(
        'model.denoise_steps',
        '0: as the checkpoint says; required if it does not',
        default=0,
        low=0,
        high=1000,
    )
    horizon: int = key(
        'model.horizon', '0: as the checkpoint says', unit='rows', default=0, low=0, high=1000, family=PI
    )
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
        is_path=True,
    )
    calibration: str = key(
        'model.calibration',
        'scales of the activations, which `flashrt calibrate` writes here; required by the fp8 recipes',
        default='',
        is_path=True,
    )
    packed: str = key(
        'model.packed',
        'weights as the recipe reads them, made by `flashrt pack` for a fast start; empty: the checkpoint is '
        'read',
        default='',
        is_path=True,
    )
    tuning: str = key(
        'model.tuning',
        'file that keeps which algorithms are fastest on this GPU, made where there is none; empty: they are '
        'timed at every start; backend cuda',
        default='',
        is_path=True,
    )
    threads: int = key(
        'model.threads', 'processor cores to use; 0: all of the machine', default=0, low=0, high=1024
    )
    allow_degenerate_statistics: bool = key(
        'model.allow_degenerate_statistics',
        'run although a column of the statistics has no width',
        default=False,
        family=PI,
    )
    min_statistics_width: float = key(
        'model.min_statistics_width',
        'a column of the statistics that is narrower has no width',
        unit='rad or m',
        default=1e-3,
        low=0.0,
        high=1.0,
        family=PI,
    )
    state_limit: float = key(
        'model.state_limit',
        'a joint whose normalised value is further from 0 gives no chunk, where 1 is the end of the training '
        'data; 0: it is only named in ~/status',
        default=0.0,
        low=0.0,
        high=1000.0,
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
    prompt_change: str = key(
        'prompt_change',
        'what a new prompt does to the chunk in play: drop holds until the first chunk of the new prompt, '
        'finish plays on until then',
        default='drop',
        choices=('drop', 'finish'),
    )
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
        family=PI,
    )

    joint_topics: tuple[str, ...] = key(
        'joints.topics', 'sensor_msgs/JointState topics, merged by joint name', default=('joint_states',)
    )
    joint_names: tuple[str, ...] = key(
        'joints.names',
        'columns of the state in the order of the model, without the prefix; also of the actions, unless '
        'actions.joints names those',
    )
    joint_prefix: str = key('joints.prefix', 'what the robot writes before each name', default='')
    joint_limits: str = key(
        'joints.limits',
        'where the limits come from: joints.lower, joints.upper and joints.max_velocity, which are then '
        'required, or the URDF on the topic robot_description',
        default='parameters',
        choices=('parameters', 'robot_description'),
    )
    joint_lower: tuple[float, ...] = key(
        'joints.lower', 'lower limit of each commanded joint', unit='rad or m', default=()
    )
    joint_upper: tuple[float, ...] = key(
        'joints.upper', 'upper limit of each commanded joint', unit='rad or m', default=()
    )
    joint_max_velocity: tuple[float, ...] = key(
        'joints.max_velocity',
        'fastest that each joint is commanded to move',
        unit='rad/s or m/s',
        default=(),
        low=1e-6,
    )
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

    history_tolerance_s: float = key(
        'history.tolerance_s',
        'how far a picture or joint value of the past may be from the moment that a policy looks back on; 0: '
        'actions.row_period_s',
        unit='s',
        default=0.0,
        low=0.0,
        high=10.0,
        family=GROOT,
    )

    gripper_names: tuple[str, ...] = key(
        'grippers.names', 'which of joints.names and actions.joints are grippers; [] for none'
    )
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
    action_joints: tuple[str, ...] = key(
        'actions.joints',
        'columns of the actions in the order of the model, without the prefix, where it moves other joints '
        'than it reads, or in another order; empty: joints.names; limits, gaps and outputs are about these',
        default=(),
        family=GROOT,
    )
    delta_mask: tuple[int, ...] | None = key(
        'actions.delta_mask',
        'which columns are relative to the state: [6, -1] is 6 relative, 1 absolute; [-7] is 7 absolute; '
        'required for openpi, a lerobot checkpoint says it',
        default=None,
        family=PI,
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

    chunk_mode: str = key(
        'chunk.mode',
        'how a chunk follows another: skip goes on at the row that is due, blend cross-fades, fusion '
        'averages all chunks that cover the moment, rtc lets the policy complete the rows already committed',
        default='skip',
        choices=('skip', 'blend', 'fusion', 'rtc'),
    )
    chunk_blend_rows: int = key(
        'chunk.blend_rows', 'length of the cross-fade; mode blend', unit='rows', default=4, low=1, high=1000
    )
    chunk_fusion_decay: float = key(
        'chunk.fusion_decay',
        'm of the weights exp(-m i), i = 0 for the oldest chunk; mode fusion',
        default=0.01,
        low=-10.0,
        high=10.0,
    )
    chunk_rtc: str = key(
        'chunk.rtc',
        'guided works with every checkpoint; hard needs one trained with rtc_training_max_delay; mode rtc',
        default='guided',
        choices=('guided', 'hard'),
        family=PI,
    )
    chunk_rtc_schedule: str = key(
        'chunk.rtc_schedule',
        'how the guidance fades over the rows; empty: as the checkpoint says, this and the next two together',
        default='',
        choices=('', 'linear', 'exp', 'ones', 'zeros'),
        family=PI,
    )
    chunk_rtc_execution_horizon: int = key(
        'chunk.rtc_execution_horizon',
        'the guidance ends at this row; 0: as the checkpoint says',
        unit='rows',
        default=0,
        low=0,
        high=1000,
        family=PI,
    )
    chunk_rtc_max_weight: float = key(
        'chunk.rtc_max_weight',
        'bound of the guidance; 0: as the checkpoint says',
        default=0.0,
        low=0.0,
        high=1000.0,
        family=PI,
    )
    chunk_request_rows: int = key(
        'chunk.request_rows',
        'the next chunk is asked for when so few rows are left, earlier if inference takes longer; 0: with '
        'every new picture',
        unit='rows',
        default=0,
        low=0,
        high=1000,
    )
    chunk_delay_percentile: float = key(
        'chunk.delay_percentile',
        'which of the rows recently consumed during inference is the estimate for the next one',
        default=90.0,
        low=50.0,
        high=100.0,
    )
    chunk_max_delay_rows: int = key(
        'chunk.max_delay_rows',
        'bound of that estimate; 0: the horizon less one',
        unit='rows',
        default=0,
        low=0,
        high=1000,
    )

    first_command: str = key(
        'safety.first_command',
        'when the first row is far from the robot, after a start, a stop, a lost input, a jump of the clock, '
        'a pause of the node, a refused chunk or a new prompt: refuse it, or approach it at '
        'joints.max_velocity',
        default='refuse',
        choices=('refuse', 'approach'),
    )
    max_first_gap: tuple[float, ...] = key(
        'safety.max_first_gap',
        'how far is far, for all commanded joints or one value per joint',
        unit='rad or m',
        default=(0.1,),
        low=1e-6,
    )
    max_clamped_rows: int = key(
        'safety.max_clamped_rows',
        'a chunk with more rows beyond the limits is refused and ends commanding',
        unit='rows',
        default=10,
        low=0,
        high=1000,
    )
    max_bad_chunks: int = key(
        'safety.max_bad_chunks',
        'commanding ends after so many refused chunks in a row',
        unit='chunks',
        default=3,
        low=1,
        high=1000,
    )
    reaction: str = key(
        'safety.reaction',
        'what is sent when an input is lost or commanding ends: hold the position sent last, zero_velocity '
        'for actions.representation joint_velocity (grippers hold), or one override of what lies in a '
        'trajectory controller and then nothing',
        default='hold',
        choices=('hold', 'zero_velocity', 'stop_publishing'),
    )
    estop_topic: str = key('estop.topic', 'std_msgs/Bool; true stops and stays latched', default='estop')
    estop_required: bool = key(
        'estop.required', 'without a publisher and a message in estop.timeout_s the node stops', default=False
    )
    estop_timeout_s: float = key(
        'estop.timeout_s',
        'longest silence of the stop topic; estop.required',
        unit='s',
        default=0.5,
        low=0.01,
        high=60.0,
    )

    priority: int = key(
        'computer.priority',
        'SCHED_FIFO priority of the thread that commands; 0: as every process',
        default=0,
        low=0,
        high=99,
    )
    affinity: tuple[int, ...] = key(
        'computer.affinity', 'processor cores that the node may use; empty: all', default=(), low=0
    )
    lock_memory: bool = key('computer.lock_memory', 'no page of the node is ever swapped out', default=False)

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

    @property
    def commanded_joints(self) -> tuple[str, ...]:
        """Columns of the actions; limits, gaps and outputs are about these."""
        return self.action_joints or self.joint_names

    @property
    def known_joints(self) -> tuple[str, ...]:
        """Those that have to be measured: of the state, and to command a joint one must know where it is."""
        return tuple(dict.fromkeys((*self.joint_names, *self.commanded_joints)))


def read_parameters(values: Mapping[str, object], node_name: str) -> tuple[Parameters, list[str]]:
    """The configuration in a flat mapping, and a warning per key that is not known.

    Raises ParameterFaults with every fault; `node_name` is the full name the values were looked up for.
    """
    values = {name: value for name, value in values.items() if not name.startswith(OF_ROS)}
    model = values.get('model.config')
    reader = TableReader(values, FAMILIES.get(model, '') if isinstance(model, str) else '')
    fields = reader.read(Parameters)
    cameras = {name: reader.read(CameraParameters, name) for name in fields.get('camera_names', ())}
    outputs = {name: reader.read(OutputParameters, name) for name in fields.get('output_names', ())}
    faults = [
        *reader.faults,
        *contradictions(fields),
        *camera_contradictions(fields, cameras),
        *topic_faults(_topics(fields, cameras, outputs), node_name),
        *stream_faults(
            {
                'cameras.names': fields.get('camera_names', ()),
                'joints.topics': fields.get('joint_topics', ()),
            }
        ),
        *output_contradictions(fields, outputs),
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


def _topics(
    fields: Mapping[str, object],
    cameras: Mapping[str, Mapping[str, object]],
    outputs: Mapping[str, Mapping[str, object]],
) -> Iterator[tuple[str, str]]:
    """(parameter, topic) of every topic that was given."""
    if 'estop_topic' in fields:
        yield 'estop.topic', fields['estop_topic']
    for i, topic in enumerate(fields.get('joint_topics', ())):
        yield f'joints.topics[{i}]', topic
    for kind, parts in (('cameras', cameras), ('outputs', outputs)):
        for name, read in parts.items():
            if 'topic' in read:
                yield f'{kind}.{name}.topic', read['topic']


if __name__ == '__main__':
    print(parameters_table(), end='')
