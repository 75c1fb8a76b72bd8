# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""The native module: checkpoints, plans, calibration and the engine.

Arrays are taken as they are: C-contiguous and of exactly the type given, so that nothing is converted unseen.
Letters: N actions in a chunk, A model action dimension, S image size in pixels or denoise steps.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flashrt_core.errors import Error as Error
from flashrt_core.errors import ModelNotSupportedError as ModelNotSupportedError

class ModelConfig:
    """The dimensions of a checkpoint."""

    @property
    def model_type(self) -> Literal['pi05', 'pi0', 'groot_n16']: ...
    @property
    def image_size(self) -> int:
        """Pixels, square; of GR00T of images whose size nobody says otherwise."""
    @property
    def image_tokens(self) -> int:
        """Rows that one camera takes in the language model."""
    @property
    def layers(self) -> int:
        """Of the language model, and of Pi's action expert alike."""
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def embodiments(self) -> int:
        """Slots of small networks, one of which is loaded; 0 where there are none."""
    @property
    def image_token(self) -> int:
        """Marks the rows of a conversation that an image fills; 0 where there is none."""
    def markup_rows(self, cameras: int) -> list[int]:
        """Of GR00T's published conversation: tokens from the image of each camera to the next, or the end."""
    @property
    def vocab_size(self) -> int: ...
    @property
    def action_dim(self) -> int:
        """Padded, of the model."""
    @property
    def state_dim(self) -> int:
        """Padded; 0 for Pi0.5, which reads the state in the prompt."""
    @property
    def horizon(self) -> int: ...
    @property
    def steps(self) -> int:
        """Denoise steps; 0 where the checkpoint does not say."""
    @property
    def prompt_capacity(self) -> int:
        """Tokens; 0 where the checkpoint does not say."""
    @property
    def min_period(self) -> float: ...
    @property
    def max_period(self) -> float: ...

def read_model_config(checkpoint: str | PathLike[str]) -> ModelConfig:
    """Reads the configuration in a checkpoint folder.

    Raises ModelNotSupportedError for Pi0-FAST and for GR00T other than N1.6, Error for what is missing
    or contradicts itself.
    """

def named_config(name_or_checkpoint: str | PathLike[str]) -> ModelConfig:
    """The published size of pi05, pi0 or groot_n16 by its name, or the configuration of a checkpoint."""

def check_weight_files(checkpoint: str | PathLike[str], config: ModelConfig) -> dict[str, int]:
    """Checks that every tensor of the model is there, in its shape and type; their numbers are not read.

    Keys, of the tensors that the model uses: tensors, elements, bytes; and files.
    """

class Observations:
    """What the values at calibration sites were, in memory that does not grow with their number."""

    def __init__(self) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Observations: ...
    def save(self, path: str | PathLike[str]) -> None:
        """Atomically. Error after an observation that failed halfway."""
    def announce(self, name: str, digest: str) -> None:
        """What the next observation is: a name for people, and a digest over it and all before it."""
    def check_fits(self, name: str, weights: str, plan: str) -> None: ...
    @property
    def bytes(self) -> int:
        """Of all histograms: one per site and step."""
    @property
    def weights_digest(self) -> str: ...
    @property
    def plan_digest(self) -> str: ...
    recipe: str
    @property
    def equalisation(self) -> Equalisation:
        """Of the model that was observed."""
    @property
    def samples(self) -> int:
        """Observations that are complete."""
    @property
    def samples_digest(self) -> str: ...
    @property
    def first_samples(self) -> list[str]:
        """Names of the first three."""
    @property
    def last_sample(self) -> str: ...
    @property
    def steps(self) -> set[int]:
        """Numbers of denoise steps."""

class Calibration:
    """Scales by site, measured on observations: real = quantised * scale."""

    def __init__(self, observations: Observations = ...) -> None:
        """Begins with a copy of them."""
    @staticmethod
    def load(path: str | PathLike[str]) -> Calibration: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def finish(
        self,
        estimator: Literal['min_max', 'percentile', 'entropy', 'mse'] = 'min_max',
        fraction: float = 0.9999,
        per_step: bool = False,
    ) -> None:
        """Turns the observations into scales; may be called again.

        fraction: of the values inside the range, for the percentile.
        """
    @property
    def observations(self) -> Observations:
        """Those that finish() uses; of a loaded calibration what they were of, without the values."""
    def number_format(self, site: str) -> str:
        """What its scales are for: 'e4m3', 'int8' and the like."""
    def scales(self, site: str) -> list[float]:
        """One scale, or one per denoise step."""
    @property
    def sites(self) -> list[str]: ...
    @property
    def weights_digest(self) -> str: ...
    @property
    def plan_digest(self) -> str:
        """Over the layers of the model: other cameras, lengths and steps have the same."""
    @property
    def equalisation(self) -> Equalisation:
        """Of the model that was observed."""
    @property
    def samples(self) -> int:
        """Observations it was measured on."""
    @property
    def method(self) -> str:
        """How scales followed from what was observed, for people."""
    origin: str

class ChannelMaxima:
    """Largest magnitude per channel of what norms write, at the sites that a recipe quantises."""

    def __init__(self) -> None: ...
    @property
    def sites(self) -> dict[str, list[float]]:
        """Named after the weight of the first linear that reads the activation."""
    @property
    def samples(self) -> int:
        """Observations it was measured on."""

class Equalisation:
    """Per channel and site a power of two: the activation is divided by it, the weights are multiplied."""

    def __init__(self, strength: float, octaves: dict[str, list[int]]) -> None: ...
    @property
    def strength(self) -> float: ...
    @property
    def octaves(self) -> dict[str, list[int]]:
        """Empty: not equalised."""

class Guidance:
    """The previous chunk, for real-time chunking."""

    def __init__(
        self,
        previous: NDArray[np.float32],  # [N, A], model space
        weights: NDArray[np.float32],  # [N]
        guidance: NDArray[np.float32],  # [steps]
        committed_rows: int = 0,
    ) -> None: ...

class DeviceReport:
    """What an engine runs on."""

    @property
    def name(self) -> str: ...
    @property
    def versions(self) -> str:
        """Of driver and libraries."""
    @property
    def total_bytes(self) -> int: ...
    @property
    def free_bytes(self) -> int: ...

class ProgramCounters:
    """What a program and its backend have done so far; after the warm-up the first three stand still."""

    @property
    def captures(self) -> int:
        """Graphs recorded by this program."""
    @property
    def allocations(self) -> int:
        """Of device and pinned memory by this process."""
    @property
    def tunings(self) -> int:
        """Searches for the fastest algorithm by this backend."""
    @property
    def graph_nodes(self) -> int:
        """Of the graph that an inference replays; 0 without graphs."""
    @property
    def graph_node_kinds(self) -> dict[str, int]: ...
    @property
    def fastest_capture_ms(self) -> float: ...
    @property
    def slowest_capture_ms(self) -> float: ...

class Measurement:
    """Times of an engine, in milliseconds."""

    @property
    def inference(self) -> list[float]:
        """On the host's clock: inputs in its memory to actions in its memory."""
    @property
    def replay(self) -> list[float]:
        """On the device's clock, as the following: what follows from pictures, state and noise."""
    @property
    def prompt(self) -> list[float]:
        """What a new prompt costs once."""
    @property
    def stages(self) -> list[list[float]]:
        """Per run, per stage of the plan."""
    @property
    def calls(self) -> list[list[float]]:
        """Per run, per call of the plan, over all iterations of its stage."""
    @property
    def before(self) -> ProgramCounters:
        """Before the inferences and replays, after the warm-up."""
    @property
    def after(self) -> ProgramCounters: ...

class CallReport:
    """A call of a plan and what it costs at least, in one iteration."""

    @property
    def name(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def when(self) -> Literal['load', 'prompt', 'infer']: ...
    @property
    def repeat(self) -> int: ...
    @property
    def flops(self) -> float:
        """Of matrix products: two per multiplication and addition."""
    @property
    def product(self) -> str:
        """The widest type among the factors of the products."""
    @property
    def weight_bytes(self) -> float: ...
    @property
    def read_bytes(self) -> float: ...
    @property
    def written_bytes(self) -> float: ...
    @property
    def kernels(self) -> list[str]:
        """None: the kernel of the call before does the work."""

class Frame:
    """A picture as a camera driver delivers it; its data are not copied, and stay in place meanwhile."""

    def __init__(
        self,
        data: bytes | bytearray | memoryview | NDArray[np.uint8],
        encoding: str,  # rgb8, bgr8, rgba8, bgra8 or mono8
        height: int,
        width: int,
        step: int,  # bytes from one row to the next
    ) -> None: ...

class FrameOptions:
    """How the frames of one camera are brought to the size of the model."""

    def __init__(
        self,
        *,
        fit: Literal['letterbox', 'stretch'] = 'letterbox',
        rotation: int = 0,  # degrees counter-clockwise, before the picture is scaled
        bars: float = -1.0,  # around it, in the range of the model; images of bytes have black ones
    ) -> None: ...

class CallDifference:
    """One result of one call on two engines; errors are relative to the first one's root mean square."""

    @property
    def call(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def iteration(self) -> int:
        """Of the call's stage."""
    @property
    def types(self) -> tuple[str, str]: ...
    @property
    def rms(self) -> float:
        """Of the error."""
    @property
    def worst(self) -> float:
        """Largest error of one element."""
    @property
    def worst_at(self) -> int:
        """Index of that element among the valid rows."""
    @property
    def not_finite(self) -> int:
        """Elements that are infinite or NaN in either."""
    @property
    def bound(self) -> float:
        """Of rms."""
    @property
    def reason(self) -> str:
        """Where the bound comes from."""
    @property
    def passed(self) -> bool: ...

class Engine:
    """A checkpoint, compiled and ready: observation in, action chunk out, in the model's own units."""

    def __init__(
        self,
        checkpoint: str | PathLike[str],
        *,
        cameras: int,
        prompt_capacity: int = 0,  # 0 here and below: the checkpoint's own, Error where it does not say
        steps: int = 0,
        horizon: int = 0,
        times: Sequence[float] = (),  # of the steps; empty: as the reference of the model has them
        recipe: str = 'f32',  # f32, bf16, fp8, fp8_f16, fp8_mixed or the path of a recipe file
        calibration: str | PathLike[str] | None = None,
        float_images: bool = False,  # the model is given float32 in [-1, 1], not bytes
        max_image_bytes: int = 0,  # > 0: images are frames of at most so many bytes, which the plan resizes
        frame_options: Sequence[FrameOptions] = (),  # per camera; empty: the defaults
        guided: bool = False,  # compiled for real-time chunking: infer takes guidance
        image_sizes: Sequence[tuple[int, int]] = (),  # GR00T: height and width per camera; empty: squares
        markup_rows: Sequence[int] = (),  # GR00T: tokens behind the image of each camera; empty: as published
        state_rows: int = 1,  # GR00T: moments whose state the model is given, oldest first
        keep_values: bool = False,  # no memory is reused
        float_activations: bool = False,  # quantised activations are held in float: to calibrate
        equalisation: Equalisation | None = None,  # to calibrate: of a calibration to come
        backend: str = 'cpu',  # or 'cuda'
        threads: int = 0,  # 0: one per core
        device: int = 0,  # cuda, like the following: index of the GPU
        tuning: str | PathLike[str] | None = None,  # keeps the fastest algorithms by device and shape
        fast_accumulation: bool = True,  # FP8 products are summed with about 14 bits
        dependent_launch: bool = True,  # a kernel may start while the one ahead still runs
        specialised_kernels: bool = True,  # False: the portable kernels only
        # Random weights of this seed; of the checkpoint only config.json is read. The names pi05, pi0 and
        # groot_n16 then stand for the published sizes.
        random_seed: int | None = None,
        random_outliers: float = 1.0,  # of random weights: factor of a few channels and a token
        packed: str | PathLike[str] | None = None,  # of `pack_weights`: read instead of the weights
        embodiment_slot: int = -1,  # GR00T, needed there: whose small networks are loaded
        allow_untrained: bool = False,  # although they look as if they were never trained
    ) -> None: ...
    def recompile(
        self,
        *,
        cameras: int,
        prompt_capacity: int = 0,
        steps: int = 0,
        horizon: int = 0,
        times: Sequence[float] = (),
        float_images: bool = False,  # the model is given float32 in [-1, 1], not bytes
        max_image_bytes: int = 0,  # > 0: images are frames of at most so many bytes, which the plan resizes
        frame_options: Sequence[FrameOptions] = (),  # per camera; empty: the defaults
        guided: bool = False,
        image_sizes: Sequence[tuple[int, int]] = (),
        markup_rows: Sequence[int] = (),
        state_rows: int = 1,
        keep_values: bool = False,
    ) -> Engine:
        """Another program on the same weights."""
    def with_recipe(
        self,
        recipe: str,
        *,
        calibration: str | PathLike[str] | None = None,
        float_activations: bool = False,
    ) -> Engine:
        """The same program in another recipe, from the same weights.

        On the CPU weights that both recipes hold in the same form are shared.
        """
    def infer(
        self,
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],  # valid ones: 1 to prompt_capacity; of GR00T in front of the first image
        noise: NDArray[np.float32],  # [N, A]
        # [state_dim], where there is one: normalised and padded; of several moments [state_rows, state_dim]
        state: NDArray[np.float32] | None = None,
        guidance: Guidance | None = None,
    ) -> NDArray[np.float32]:
        """Actions [N, A] in model space.

        images: [cameras, H, W, 3] RGB, resized and padded, or a frame per camera where the engine resizes;
        images of several sizes one behind the other in one row.
        tokens: of GR00T the whole conversation, with as many image tokens as each image has rows.
        Releases the interpreter. One call at a time: Error while another one runs.
        """
    def trace(
        self,
        values: Sequence[str],
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
        guidance: Guidance | None = None,
    ) -> dict[str, NDArray[np.float32]]:
        """Values of the plan during one inference: valid rows, one block per step in a repeated stage.

        An unknown name is an Error with the nearest known ones; plan_text lists them.
        """
    def observe(
        self,
        calibration: Calibration,
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
    ) -> None:
        """Adds this inference to the calibration. Needs float_activations."""
    def observe_channels(
        self,
        maxima: ChannelMaxima,
        images: NDArray[np.uint8] | NDArray[np.float32] | Sequence[Frame],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
    ) -> None:
        """Adds this inference to what equalisation follows from.

        Needs float_activations, and an engine that is not equalised.
        """
    def equalise(self, maxima: ChannelMaxima, strength: float) -> Equalisation:
        """Factors from what was observed, for another engine; reads the weights again.

        strength: 1 evens out the activations, towards 0 the weights.
        """
    def measure(
        self,
        inputs: Sequence[tuple[NDArray, NDArray[np.int32], NDArray[np.float32], NDArray[np.float32] | None]],
        warmup: int = 50,
        runs: int = 200,
        operation_runs: int = 0,
    ) -> Measurement:
        """Times of inferences, which take the inputs in turn: images, tokens, noise, state."""
    def compare(
        self,
        second: Engine,
        images: NDArray[np.uint8] | NDArray[np.float32],
        tokens: NDArray[np.int32],
        noise: NDArray[np.float32],
        state: NDArray[np.float32] | None = None,
        all: bool = False,
    ) -> list[CallDifference]:
        """Each call of the second engine on what this one computed. Both are compiled with keep_values.

        Stops after the first result beyond its bound, unless all are asked for.
        """
    def report_calls(self, prompt_length: int) -> list[CallReport]:
        """The calls of the plan with their costs and kernels, in order."""
    @property
    def device(self) -> DeviceReport: ...
    def frame_buffer(self, camera: int) -> NDArray[np.uint8]:
        """Memory for the frame of a camera; one that lies at its beginning is not copied again.

        Not to be touched while a call of the engine runs.
        """
    @property
    def stages(self) -> list[str]:
        """Of the plan, in order."""
    @property
    def config(self) -> ModelConfig: ...
    @property
    def cameras(self) -> int: ...
    @property
    def prompt_capacity(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def times(self) -> list[float]: ...
    @property
    def weights_digest(self) -> str: ...
    @property
    def plan_digest(self) -> str: ...
    @property
    def equalisation(self) -> Equalisation: ...
    def plan_text(self) -> str: ...
    def plan_stats(self) -> dict[str, int | float]:
        """calls, quantize_calls, arena_bytes (planned), unplanned_bytes (no memory reused), weight_bytes
        (as the backend holds them), stored_weight_bytes (in the types and formats of the recipe)."""

def recipe_json(name_or_path: str) -> str:
    """A recipe as the text of a recipe file."""

def pack_weights(
    checkpoint: str | PathLike[str],
    output: str | PathLike[str],
    *,
    recipe: str,
    random_seed: int | None = None,
    threads: int = 0,
    embodiment_slot: int = -1,
    allow_untrained: bool = False,
) -> str:
    """Writes the weights as the recipe reads them; returns the digest of their source."""

def describe_plan(
    config: ModelConfig,
    *,
    cameras: int,
    prompt_capacity: int = 0,
    horizon: int = 0,
    steps: int = 0,
    guided: bool = False,
    recipe: str = 'f32',
    threads: int = 0,
) -> dict[str, str | int]:
    """The plan of a configuration without its weights.

    Keys: text, calls, quantize_calls, arena_bytes, unplanned_bytes, stored_weight_bytes.
    """

NUMBER_FORMATS: tuple[str, ...]

def format_info(format: str) -> dict[str, float | int | bool]:
    """What is known of a number format.

    bits: of one number, with its part of a block's scale; block: numbers of a row that share one (1: none);
    largest: the largest magnitude with a scale of 1 (0: the format has no scale of a tensor);
    emulated: only the CPU backend runs it.
    """

def format_scale(format: str, amax: float) -> float:
    """The scale that maps this magnitude to the largest code."""

def round_to_format(format: str, values: NDArray[np.float32], scale: float = 1.0) -> NDArray[np.float32]:
    """What the format holds of the values; blocks are counted along the last axis."""
