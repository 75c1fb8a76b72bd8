# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Live replay: the node in its own process, a recording over real DDS, and what the node said about it."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rclpy.node import Node
from rich.console import Console

from flashrt_ros.bag import Bag, select_topics
from flashrt_ros.bag_inputs import CLOCK_TOPIC, CLOCK_TYPE, input_topics, input_types
from flashrt_ros.bag_player import BagPlayer, is_installed
from flashrt_ros.local_ros import set_up_transport, spinning_node
from flashrt_ros.node_process import COMMAND, NodeProcess
from flashrt_ros.replay_setup import NODE_NAME, Warnings, checked_parameters, progress_bar
from flashrt_ros.report import Report
from flashrt_ros.witness import GATED_STAGE, Witness, settle

_CLOCK_SETTLE_S = 0.2  # several ticks of a clock that stands still


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
        inputs = input_topics(parameters).keys()
        topics = select_topics(bag, input_types(parameters), is_installed, warnings) & inputs
        if not simulated_time and bag.topics.get(CLOCK_TOPIC) == CLOCK_TYPE:
            warnings(f'{bag_path} holds {CLOCK_TOPIC}: it was made on simulated time; replay it with --clock')
        observe(node)
        witness = Witness(node)
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
            settle(process, witness)
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
            streams=witness.streams(parameters, player.published),
            play=witness.play(),
            policy=witness.policy(),
            warnings=tuple(warnings.texts),
        )
