# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Makes every ROS distribution refuse a transition that does not exist now, instead of ending the process."""

from lifecycle_msgs.srv import ChangeState
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNodeMixin


def refuse_unknown_transitions(node: LifecycleNodeMixin) -> None:
    """rclpy of Jazzy raises out of ~/change_state, for instance at a second configure during the first."""
    service = node._service_change_state
    answer = service.callback

    def answer_or_refuse(
        request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        try:
            return answer(request, response)
        except rclpy_implementation.RCLError as error:
            node.get_logger().error(f'transition {request.transition.id} is refused: {error}')
            response.success = False
            return response

    service.callback = answer_or_refuse
