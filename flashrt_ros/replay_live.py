# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Live replay: the node in its own process, a recording over real DDS, and what the node said about it."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rich.console import Console

from flashrt_ros.bag import Bag, select_topics
from flashrt_ros.bag_inputs import CLOCK_TOPIC, CLOCK_TYPE, input_topics, input_types, stream_counts
from flashrt_ros.bag_player import BagPlayer, is_installed
from flashrt_ros.conversions import stamp_ns
from flashrt_ros.latency import STAGES, Percentiles
from flashrt_ros.node_process import COMMAND, NodeProcess
from flashrt_ros.parameters import Parameters
from flashrt_ros.replay_setup import NODE_NAME, Warnings, checked_parameters, progress_bar
from flashrt_ros.report import ChunkTiming, Report, StreamCounts

GATED_STAGE = 'stamp_to_command'
_QUIET_S, _SETTLE_S = 0.3, 10.0  # after the last message: no new chunk for this long, and at most this long
_CLOCK_SETTLE_S = 0.2  # several ticks of a clock that stands still
_REPORT_S = 5.0  # the node reports once a second
_DEPTH = 1000  # a busy machine may delay the witness, not make it miss a chunk
_KILTED = 8  # first major version of rclpy after Jazzy's


def replay_live(
    bag_path: Path,
    params: Path,
    out: Path,
    console: Console,
    *,
    simulated_time: bool = False,
    overrides: Mapping[str, object] | None = None,
    command: Sequence[str] = COMMAND,
    observe: Callable[[Node], None] = lambda node: None,  # to subscribe to more
) -> Report:
    """Configures, activates and starts the node, plays the recording, stops it, and collects its figures."""
    warnings = Warnings(console)
    parameters = checked_parameters(params, warnings, overrides)
    set_up_transport(params)
    with Bag(bag_path, warnings) as bag, spinning_node('flashrt_replay') as node:
        inputs = input_topics(parameters)
        topics = select_topics(bag, input_types(parameters), is_installed, warnings) & inputs.keys()
        if not simulated_time and bag.topics.get(CLOCK_TOPIC) == CLOCK_TYPE:
            warnings(f'{bag_path} holds {CLOCK_TOPIC}: it was made on simulated time; replay it with --clock')
        observe(node)
        witness = _Witness(node)
        player = BagPlayer(node, bag, topics, simulated_time)
        process = NodeProcess(
            node, NODE_NAME, params, out / 'node.log',
            simulated_time=simulated_time, overrides=overrides or {}, command=command,
        )  # fmt: skip
        with process:
            with console.status('the node loads the model'):
                player.begin_clock()
                process.configure()
            process.wait_for(player.is_clock_heard, 'the subscription of the node to /clock', 10.0)
            time.sleep(_CLOCK_SETTLE_S if simulated_time else 0.0)
            process.activate()
            process.trigger('start')
            process.wait_for(player.is_connected, 'the subscription of the node to every topic', 10.0)
            with progress_bar(console, 'live', bag) as progress:
                player.play(lambda log_ns: (process.check_alive(), progress(log_ns)))
            process.trigger('stop')  # before the missing inputs would count as underruns
            _settle(process, witness)
        warnings.texts += witness.gaps()
        return Report(
            mode='live',
            clock='simulated time, stamps as recorded' if simulated_time else 'stamps moved to now',
            bag=str(bag_path),
            parameters=str(params),
            messages=player.published.total(),
            duration_s=(bag.end_ns - bag.start_ns) / 1e9,
            stages=witness.stages,
            gated_stage=GATED_STAGE,
            chunks=tuple(witness.chunks),
            streams=witness.streams(parameters, inputs, player.published),
            play=witness.play(),
            policy=witness.policy(),
            warnings=tuple(warnings.texts),
        )


def set_up_transport(params: Path) -> None:
    """Loopback only, and a shared-memory segment that holds raw pictures; what the user has set stays."""
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    profile = _profile(params)
    if profile is not None:
        os.environ.setdefault('FASTDDS_DEFAULT_PROFILES_FILE', os.fspath(profile))
        if (
            int(metadata.version('rclpy').split('.')[0]) < _KILTED
        ):  # where the new name is read, this one warns
            os.environ.setdefault('FASTRTPS_DEFAULT_PROFILES_FILE', os.fspath(profile))


def _profile(params: Path) -> Path | None:
    """config/fastdds_shm.xml beside the parameter file, in the source tree, or in the installed package."""
    prefixes = [Path(prefix) for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(':') if prefix]
    folders = [params.parent, Path(__file__).resolve().parent.parent / 'config']
    folders += [prefix / 'share' / 'flashrt_ros' / 'config' for prefix in prefixes]
    return next((file for folder in folders if (file := folder / 'fastdds_shm.xml').is_file()), None)


@contextmanager
def spinning_node(name: str) -> Iterator[Node]:
    """A node whose callbacks run in a thread of their own."""
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(name, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    is_done = threading.Event()

    def spin() -> None:
        while not is_done.is_set():
            try:
                executor.spin_once(timeout_sec=0.1)
            except ExternalShutdownException:
                return

    thread = threading.Thread(target=spin, name='replay-spin', daemon=True)
    thread.start()
    try:
        yield node
    finally:
        is_done.set()
        thread.join()
        executor.shutdown()
        node.destroy_node()
        context.shutdown()


def _settle(process: NodeProcess, witness: '_Witness') -> None:
    """Waits for the inference that is under way, then for figures that include it."""
    deadline_s = time.monotonic() + _SETTLE_S
    process.wait_for(
        lambda: time.monotonic() > min(witness.last_chunk_s + _QUIET_S, deadline_s),
        'the last chunk',
        2 * _SETTLE_S,
    )
    witness.expect_news()
    process.wait_for(witness.has_news, 'a report of the node on ~/status and ~/latency', _REPORT_S)


class _Witness:
    """Listens to what the node publishes."""

    def __init__(self, node: Node) -> None:
        from flashrt_ros.msg import ActionChunk

        self.chunks: list[ChunkTiming] = []
        self.stages: dict[str, Percentiles] = {}
        self.last_chunk_s = time.monotonic()
        self._status: dict[str, str] = {}
        self._news: set[str] = set()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(ActionChunk, f'{NODE_NAME}/action_chunk', self._on_chunk, _DEPTH)
        node.create_subscription(DiagnosticStatus, f'{NODE_NAME}/status', self._on_status, latched)
        node.create_subscription(DiagnosticArray, f'{NODE_NAME}/latency', self._on_latency, 10)

    def expect_news(self) -> None:
        self._news.clear()

    def has_news(self) -> bool:
        """A status has come, and latencies if there is a chunk that they could be about."""
        return 'status' in self._news and ('latency' in self._news or not self.chunks)

    def gaps(self) -> list[str]:
        """Chunks whose message did not reach this process."""
        missed, last = 0, 0
        for chunk in self.chunks:
            begin = last if chunk.chunk_id > last else 0  # a new run counts from 1 again
            missed += chunk.chunk_id - begin - 1
            last = chunk.chunk_id
        total = missed + len(self.chunks)
        return [f'{missed} of {total} chunks did not reach the replay'] if missed else []

    def streams(
        self, parameters: Parameters, inputs: Mapping[str, str], published: Mapping[str, int]
    ) -> dict[str, StreamCounts]:
        slots = {camera.slot for camera in parameters.cameras}
        return {
            stream: stream_counts(topic, published.get(topic, 0), self._counters(stream), stream in slots)
            for topic, stream in inputs.items()
        }

    def play(self) -> dict[str, float]:
        return {key.removeprefix('play.'): float(value) for key, value in self._with_prefix('play.')}

    def policy(self) -> dict[str, str]:
        return {key.removeprefix('policy.'): value for key, value in self._with_prefix('policy.')}

    def _counters(self, stream: str) -> dict[str, int]:
        pairs = ((key.removeprefix(f'{stream}.'), value) for key, value in self._with_prefix(f'{stream}.'))
        return {reason: int(value) for reason, value in pairs if not reason.endswith('age_s')}

    def _with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self._status.items() if key.startswith(prefix)]

    def _on_chunk(self, message: Any) -> None:
        self.last_chunk_s = time.monotonic()
        self.chunks.append(
            ChunkTiming(
                message.chunk_id,
                stamp_ns(message.header.stamp),
                stamp_ns(message.inference_start),
                stamp_ns(message.inference_end),
            )
        )

    def _on_status(self, message: DiagnosticStatus) -> None:
        self._status = {pair.key: pair.value for pair in message.values}
        self._news.add('status')

    def _on_latency(self, message: DiagnosticArray) -> None:
        self.stages = _stages(message)
        self._news.add('latency')


def _stages(message: DiagnosticArray) -> dict[str, Percentiles]:
    found = {}
    for status in message.status:
        values = {pair.key: pair.value for pair in status.values}
        stage = status.name.rsplit(' ', 1)[-1]
        found[stage] = Percentiles(
            int(values['count']), *(float(values[f'{name}_ms']) for name in ('p50', 'p90', 'p99', 'max'))
        )
    return {stage: found[stage] for stage in STAGES if stage in found}
