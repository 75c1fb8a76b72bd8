# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Whether a running robot gives the policy node what it needs and takes what it sends; judged without ROS."""

from collections.abc import Iterable, Iterator

from flashrt_ros.check_controller import ControlledOutput, check_controller, is_controller
from flashrt_ros.check_findings import Finding, fail, guarded, ok, skip, warn
from flashrt_ros.check_inputs import check_camera, check_joint_names, check_joint_topic, check_stop
from flashrt_ros.check_limits import check_limits
from flashrt_ros.graph_view import GraphView, OutputView
from flashrt_ros.parameters import OutputParameters, Parameters

SUBJECTS = ('graph', 'topics', 'controllers', 'limits')  # what is left out without ROS


def check_graph(view: GraphView, parameters: Parameters) -> Iterator[Finding]:
    yield _who_is_there(view)
    if view.has_clock:
        yield skip('age of stamps', '/clock is published, so stamps are in simulated time')
    cameras = {camera.slot: camera for camera in parameters.cameras}
    joint_topics = [seen for seen in view.inputs if seen.kind == 'joints']
    for seen in view.inputs:
        if seen.kind == 'camera':
            check = check_camera(seen, cameras[seen.stream], parameters, view.has_clock)
            yield from guarded(f'camera {seen.stream}', check)
    for seen in joint_topics:
        yield from guarded(f'joints {seen.stream}', check_joint_topic(seen, parameters, view.has_clock))
    yield from guarded('joint names', check_joint_names(joint_topics, parameters))
    for seen in view.inputs:
        if seen.kind == 'estop':
            yield from guarded('estop', check_stop(seen, parameters))
    outputs = {output.name: output for output in parameters.outputs}
    for seen in view.outputs:
        yield from guarded(f'output {seen.output}', _output(seen, parameters.dry_run))
        check = _controllers(seen, outputs[seen.output], parameters.joint_prefix)
        yield from guarded(f'controller {seen.output}', check)
    yield from guarded('limits', check_limits(parameters, view.description_topic, view.description))


def _who_is_there(view: GraphView) -> Finding:
    where = f'{view.middleware}, domain {view.domain}'
    if view.nodes:
        return ok('graph', f'{where}: {len(view.nodes)} other node(s)')
    return warn(
        'graph',
        f'{where}: no other node is seen; start the robot, or compare ROS_DOMAIN_ID and '
        'ROS_AUTOMATIC_DISCOVERY_RANGE with what the robot was started with',
    )


def _output(seen: OutputView, is_dry_run: bool) -> Iterator[Finding]:
    subject = f'output {seen.output}'
    if others := ', '.join(seen.other_publishers):
        yield warn(subject, f'{others} publishes on {seen.topic}, too: two sources of commands fight')
    fitting = [end for end in seen.subscribers if end.type == seen.type]
    connected = [end.node for end in fitting if not end.qos_fault]
    if connected:
        yield ok(subject, f'{seen.topic} ({seen.type}) is heard by {_listed(connected)}')
        return
    if not seen.subscribers:
        text = (
            f'nobody subscribes to {seen.topic}; start its controller, or correct outputs.{seen.output}.topic'
        )
    elif not fitting:
        other = seen.subscribers[0]
        text = (
            f'{other.node} on {seen.topic} wants {other.type}, the node would send {seen.type}; set '
            f'outputs.{seen.output}.type'
        )
    else:
        end = fitting[0]
        text = f'{end.node} on {seen.topic} cannot hear the node, QoS incompatible: {end.qos_fault}'
    if is_dry_run:
        yield warn(subject, f'{text} (a dry run sends nothing)')
    else:
        yield fail(subject, text)


def _controllers(seen: OutputView, output: OutputParameters, prefix: str) -> Iterator[Finding]:
    subject = f'controller {seen.output}'
    known = {node: values for node, values in seen.parameters.items() if is_controller(values)}
    if not seen.subscribers:
        yield skip(subject, f'nobody subscribes to {seen.topic}')
        return
    if not known:
        nodes = _listed(end.node for end in seen.subscribers)
        yield skip(subject, f'{nodes} told no parameter joints: no controller that is known here')
        return
    joints = tuple(prefix + joint for joint in output.joints)
    described = ControlledOutput(output.name, output.type, output.quantity, joints)
    for node, values in known.items():
        yield from check_controller(described, node, values)


def _listed(nodes: Iterable[str]) -> str:
    return ', '.join(dict.fromkeys(nodes))
