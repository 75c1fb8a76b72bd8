# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Collects the newest sample of every sensor and forms an observation when all of them agree."""

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flashrt_core.types import CameraFrame, Observation
from flashrt_ros.compressed_images import CompressedFrame, orientation_tag
from flashrt_ros.conversions import Frame, JointSample, check_frame, decode_frame, undecoded_frame
from flashrt_ros.grippers import GripperMap
from flashrt_ros.history import NO_PAST, History, LookBack
from flashrt_ros.inputs import Moment, Rejected
from flashrt_ros.parameters import CameraParameters, Parameters
from flashrt_ros.raw_images import Picture

_MAX_NAMES_KEPT = 64  # of joints that arrived but are not wanted, for messages

Report = Callable[[str, str, str], None]  # stream, reason, text


class NotReady(Exception):
    """No observation can be formed now; `condition` is a word, the text has names and numbers."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


@dataclass(frozen=True)
class Observed:
    """An observation and where its time went before it was complete."""

    observation: Observation
    stamp_ns: int  # of the oldest input
    receive: Moment  # when that input arrived
    ready: Moment


@dataclass(frozen=True)
class StreamHealth:
    """What an operator wants to know about one stream.

    Of a camera, received = used + superseded + waiting + the refused ones, at any moment.
    """

    name: str
    topic: str
    age_s: float | None  # None: nothing usable has arrived
    counters: Mapping[str, int]
    last_rejection: str
    details: Mapping[str, float] = field(default_factory=dict)  # age of each joint


@dataclass(eq=False)
class _Sample:
    stamp_ns: int
    receive: Moment
    frame: Frame
    picture: Picture | CameraFrame | None = None  # made when first needed
    is_used: bool = False


@dataclass
class _Joint:
    position: float
    stamp_ns: int
    receive: Moment
    topic: str


@dataclass
class _Stream:
    topic: str
    counters: Counter = field(default_factory=Counter)
    last_rejection: str = ''


@dataclass
class _Camera(_Stream):
    parameters: CameraParameters | None = None
    # Two lists of at most two frames, oldest first: the older one is the reserve for a damaged newer one.
    pending: list[_Sample] = field(default_factory=list)  # passed the cheap check
    in_work: list[_Sample] = field(default_factory=list)  # being decoded
    good: _Sample | None = None  # the newest that was decoded
    history: History[Frame] = field(default_factory=lambda: History(0, 0))  # not decoded

    def held(self) -> list[_Sample]:
        """Oldest first."""
        return [*([self.good] if self.good else []), *self.in_work, *self.pending]

    def newest(self) -> _Sample | None:
        return self.held()[-1] if self.held() else None

    def take(self) -> list[_Sample]:
        """Moves the pending frames into work."""
        self.in_work, self.pending = self.pending, []
        return list(self.in_work)

    def drop(self, samples: list[_Sample]) -> None:
        """Frames that a newer one makes needless."""
        self.counters['superseded'] += sum(not sample.is_used for sample in samples)
        self.pending = [sample for sample in self.pending if sample not in samples]
        self.in_work = [sample for sample in self.in_work if sample not in samples]
        self.good = None if self.good in samples else self.good


class ObservationBuffer:
    """Newest sample per camera and per joint; a bad sample never replaces a good one.

    Callbacks add, one worker forms. Streams are named by camera slot and by joint topic. For a policy that
    looks back it also has a bounded history of each, and forms nothing before that is long enough.
    """

    def __init__(
        self,
        parameters: Parameters,
        report: Report,
        look_back: LookBack = NO_PAST,
    ) -> None:
        self._parameters = parameters
        self._report = report
        self._look_back = look_back
        self._grippers = GripperMap(parameters)
        self._wanted = {parameters.joint_prefix + name: name for name in parameters.known_joints}
        self._cameras = {
            camera.slot: _Camera(
                topic=camera.topic, parameters=camera, history=look_back.of_camera(camera.slot)
            )
            for camera in parameters.cameras
        }
        self._joint_streams = {topic: _Stream(topic=topic) for topic in parameters.joint_topics}
        self._joints: dict[str, _Joint] = {}
        self._past_joints: dict[str, History[float]] = {
            name: look_back.of_joint() for name in parameters.joint_names
        }
        self._other_names: dict[str, None] = {}
        self._not_before_ns = 0
        self._lock = threading.Lock()

    def reset(self, not_before_ns: int = 0) -> None:
        """Forgets every sample and refuses those stamped earlier than `not_before_ns`; counters stay."""
        with self._lock:
            self._not_before_ns = not_before_ns
            self._joints.clear()
            self._other_names.clear()
            for camera in self._cameras.values():
                camera.drop(camera.held())
            self._clear_past()

    def forget_past(self) -> None:
        """What was before belongs to another run or task: a policy does not look back on it any more."""
        with self._lock:
            self._clear_past()

    def _clear_past(self) -> None:
        for camera in self._cameras.values():
            camera.history.clear()
        for past in self._past_joints.values():
            past.clear()

    def add_frame(self, slot: str, frame: Frame, stamp_ns: int, receive: Moment) -> bool:
        """True when the frame is now the newest of its camera; else it was counted and reported."""
        camera = self._cameras[slot]
        settings = camera.parameters
        with self._lock:
            camera.counters['received'] += 1
            try:
                stamp = self._usable_stamp(settings.stamp, stamp_ns, receive, f'cameras.{slot}.stamp')
                previous = camera.newest()
                if previous is not None and stamp <= previous.stamp_ns:
                    behind_s = (previous.stamp_ns - stamp) / 1e9
                    raise Rejected('out_of_order', f'stamp is {behind_s:.3f} s behind the frame in use')
                check_frame(frame, self._parameters.camera_max_side_px, settings.channel_order)
            except Rejected as rejected:
                return self._reject(slot, camera, rejected)
            camera.drop(camera.pending[:-1])
            camera.pending.append(_Sample(stamp, receive, frame))
            camera.history.add(stamp, frame)
        return True

    def add_joints(self, topic: str, sample: JointSample, stamp_ns: int, receive: Moment) -> bool:
        """Takes the wanted joints of one message, ignores the others; False when it is refused.

        A message is refused when every wanted joint of it is late; where only some are, they are reported.
        """
        stream = self._joint_streams[topic]
        with self._lock:
            stream.counters['received'] += 1
            try:
                stamp = self._usable_stamp(self._parameters.joint_stamp, stamp_ns, receive, 'joints.stamp')
                late = self._merge(topic, sample, stamp, receive)
            except Rejected as rejected:
                return self._reject(topic, stream, rejected)
            if late:
                stream.counters['partly_late'] += 1
                self._report(topic, 'partly_late', f'{topic}: {_behind(late)}; the other joints were taken')
        return True

    def reject(self, stream_name: str, rejected: Rejected) -> None:
        """Counts a message that could not even be read."""
        stream = self._cameras.get(stream_name) or self._joint_streams[stream_name]
        with self._lock:
            stream.counters['received'] += 1
            self._reject(stream_name, stream, rejected)

    def check(self, now: Moment) -> NotReady | None:
        """Why no observation could be formed now, judged without decoding."""
        with self._lock:
            try:
                self._check_cameras(now)
                self._check_joints(now)
            except NotReady as reason:
                return reason
        return None

    def check_past(self) -> NotReady | None:
        """Why a policy that looks back has to wait although `check` finds nothing, judged likewise."""
        with self._lock:
            try:
                self._past_frames(_Camera.newest)
                self._past_states()
            except NotReady as reason:
                return reason
        return None

    def positions(self, now: Moment) -> NDArray[np.float64] | None:
        """[commanded joints], robot units, as measured; None while one is missing, too old or not finite."""
        with self._lock:
            try:
                self._check_joints(now)
            except NotReady:
                return None
            return self._positions(self._parameters.commanded_joints)

    def form(self, now: Callable[[], Moment], prompt_id: int) -> Observed:
        """The newest observation; raises NotReady, with condition 'nothing_new' when it was used before."""
        self._decode(now())
        past_pictures = self._past_pictures(now) if self._look_back.pictures else {}
        with self._lock:
            fresh = self._fresh(now())
            past_states = self._past_states()
            samples = {slot: camera.good for slot, camera in self._cameras.items()}
            for camera in fresh:
                camera.good.is_used = True
                camera.counters['used'] += 1
            state = self._positions(self._parameters.joint_names)
            joints = dict(self._joints)
        stamps = {slot: sample.stamp_ns for slot, sample in samples.items()}
        for joint in joints.values():
            stamps[joint.topic] = min(joint.stamp_ns, stamps.get(joint.topic, joint.stamp_ns))
        oldest = min([*samples.values(), *joints.values()], key=lambda sample: sample.stamp_ns)
        observation = Observation(
            images={slot: sample.picture for slot, sample in samples.items()} | past_pictures,
            state=self._grippers.to_model(state),
            stamps_ns=stamps,
            prompt_id=prompt_id,
            past_states=None if past_states is None else self._grippers.to_model(past_states),
        )
        return Observed(observation, oldest.stamp_ns, oldest.receive, now())

    def _fresh(self, now: Moment) -> list[_Camera]:
        """Cameras with a picture that was not used yet; raises where no observation can be formed now."""
        self._check_cameras(now, lambda camera: camera.good)
        self._check_joints(now)
        fresh = [camera for camera in self._cameras.values() if not camera.good.is_used]
        if not fresh:
            raise NotReady('nothing_new', 'no new picture since the last observation')
        return fresh

    def _positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        return np.array([self._joints[name].position for name in names], np.float64)

    # What a policy looks back on

    def _past_pictures(self, now: Callable[[], Moment]) -> dict[str, Picture | CameraFrame]:
        """By the names of the policy; a picture that turns out damaged gives way to one that is as near."""
        while True:
            with self._lock:
                self._fresh(now())
                chosen = self._past_frames(lambda camera: camera.good)
            pictures = {}
            for name, (slot, stamp_ns, frame) in chosen.items():
                camera = self._cameras[slot]
                try:
                    pictures[name] = self._picture(frame, camera.parameters.channel_order)
                except Rejected as rejected:
                    self._report(slot, rejected.reason, f'{slot} ({camera.topic}) in the past: {rejected}')
                    with self._lock:
                        camera.history.drop(stamp_ns)
                    break
            else:
                return pictures

    def _past_frames(self, choose: Callable[[_Camera], _Sample | None]) -> dict[str, tuple[str, int, Frame]]:
        """Camera, stamp and frame by the names of the policy; choose: the present that ages count from."""
        frames = {}
        for name, view in self._look_back.pictures.items():
            camera = self._cameras[view.slot]
            sample = choose(camera)
            now_ns = sample.stamp_ns if sample else 0
            found = camera.history.nearest(now_ns - view.age_ns, now_ns)
            if found is None:
                raise self._lacks_past(f"camera '{view.slot}'", camera.history, view.age_ns, now_ns)
            frames[name] = view.slot, *found
        return frames

    def _past_states(self) -> NDArray[np.float64] | None:
        """[moments, joints of the state], robot units, oldest first; None where the policy wants none."""
        rows = []
        for age_ns in self._look_back.states_ns:
            row = []
            for name, past in self._past_joints.items():
                now_ns = self._joints[name].stamp_ns if name in self._joints else 0
                found = past.nearest(now_ns - age_ns, now_ns)
                if found is None:
                    raise self._lacks_past(f"joint '{name}'", past, age_ns, now_ns)
                row.append(found[1])
            rows.append(row)
        return np.array(rows, np.float64) if rows else None

    def _lacks_past(self, what: str, past: History, age_ns: int, now_ns: int) -> NotReady:
        tolerance_s = self._look_back.tolerance_ns / 1e9
        within = f'within {tolerance_s:g} s (history.tolerance_s) of {age_ns / 1e9:g} s ago'
        known = f'{past.span_ns(now_ns) / 1e9:.3f} s are known'
        return NotReady('history', f'{what}: the policy looks back, and nothing is known {within}; {known}')

    def health(self, now: Moment) -> list[StreamHealth]:
        """Every stream, cameras first."""
        with self._lock:
            result = []
            for slot, camera in self._cameras.items():
                sample = camera.newest()
                age_s = None if sample is None else _age_s(now, sample.stamp_ns)
                waiting = sum(not held.is_used for held in camera.held())
                counters = {**camera.counters, 'waiting': waiting}
                result.append(StreamHealth(slot, camera.topic, age_s, counters, camera.last_rejection))
            for topic, stream in self._joint_streams.items():
                ages = {n: _age_s(now, j.stamp_ns) for n, j in self._joints.items() if j.topic == topic}
                result.append(
                    StreamHealth(
                        topic,
                        topic,
                        max(ages.values(), default=None),
                        dict(stream.counters),
                        stream.last_rejection,
                        ages,
                    )
                )
            return result

    def _usable_stamp(self, clock: str, stamp_ns: int, receive: Moment, setting: str) -> int:
        if clock == 'receive':
            return receive.ros_ns
        if stamp_ns == 0:
            raise Rejected(
                'zero_stamp', f'header stamp is zero; set {setting}: receive to count the age from receipt'
            )
        ahead_s = (stamp_ns - receive.ros_ns) / 1e9
        if ahead_s > self._parameters.max_clock_skew_s:
            raise Rejected('future_stamp', f'stamp is {ahead_s:.3f} s ahead of the clock of this node')
        if stamp_ns < self._not_before_ns:
            raise Rejected('before_activation', 'stamp is from before the activation of the node')
        return stamp_ns

    def _merge(self, topic: str, sample: JointSample, stamp: int, receive: Moment) -> list[str]:
        """Takes every wanted joint but the late ones, whose names are returned."""
        late, is_any_taken = [], False
        for full_name, position in sample.positions.items():
            name = self._wanted.get(full_name)
            if name is None:
                if len(self._other_names) < _MAX_NAMES_KEPT:
                    self._other_names[full_name] = None
                continue
            known = self._joints.get(name)
            if known is not None and stamp < known.stamp_ns:
                late.append(name)
                continue
            self._joints[name] = _Joint(position, stamp, receive, topic)
            if name in self._past_joints and math.isfinite(position):
                self._past_joints[name].add(stamp, position)
            is_any_taken = True
        if late and not is_any_taken:
            raise Rejected('out_of_order', _behind(late))
        return late

    def _reject(self, name: str, stream: _Stream, rejected: Rejected) -> bool:
        stream.counters[rejected.reason] += 1
        stream.last_rejection = f'{rejected.reason}: {rejected}'
        self._report(name, rejected.reason, f'{name} ({stream.topic}): {rejected}')
        return False

    def _decode(self, now: Moment) -> None:
        """Decodes the newest frames; where one turns out damaged, the one before stays in use."""
        with self._lock:
            self._check_cameras(now)
            in_work = {slot: camera.take() for slot, camera in self._cameras.items()}
        for slot, samples in in_work.items():
            camera = self._cameras[slot]
            while samples and not self._decode_one(slot, camera, samples.pop()):
                pass

    def _decode_one(self, slot: str, camera: _Camera, sample: _Sample) -> bool:
        try:
            picture = self._picture(sample.frame, camera.parameters.channel_order)
        except Rejected as rejected:
            with self._lock:
                if sample in camera.in_work:  # else the buffer was reset meanwhile
                    camera.in_work.remove(sample)
                    camera.history.drop(sample.stamp_ns)
                    self._reject(slot, camera, rejected)
            return False
        self._note_orientation(slot, camera, sample.frame)
        with self._lock:
            if sample in camera.in_work:
                sample.picture = picture
                camera.in_work.remove(sample)
                camera.drop([*([camera.good] if camera.good else []), *camera.in_work])
                camera.good = sample
        return True

    def _picture(self, frame: Frame, channel_order: str) -> Picture | CameraFrame:
        """RGB; where the engine resizes, also the frame itself."""
        max_bytes = self._parameters.camera_max_image_bytes
        if not max_bytes:
            return decode_frame(frame, channel_order)
        picture = undecoded_frame(frame, channel_order)
        size = 0 if picture is None else len(picture.data)
        if picture is None:
            picture = decode_frame(frame, channel_order)
            size = picture.nbytes
        if size > max_bytes:
            raise Rejected('too_large', f'{size} bytes, cameras.max_image_bytes is {max_bytes}')
        return picture

    def _note_orientation(self, slot: str, camera: _Camera, frame: Frame) -> None:
        if isinstance(frame, CompressedFrame) and (tag := orientation_tag(frame)) != 1:
            camera.counters['orientation_ignored'] += 1
            if camera.counters['orientation_ignored'] == 1:
                self._report(
                    slot,
                    'orientation_ignored',
                    f'{slot} ({camera.topic}): EXIF orientation {tag} is ignored, pixels are used as stored; '
                    f'to turn the picture set cameras.{slot}.rotation',
                )

    def _check_cameras(
        self, now: Moment, choose: Callable[[_Camera], _Sample | None] = _Camera.newest
    ) -> None:
        stamps = {}
        for slot, camera in self._cameras.items():
            sample = choose(camera)
            if sample is None:
                why = f' (last refused: {camera.last_rejection})' if camera.last_rejection else ''
                raise NotReady('missing', f"no picture from camera '{slot}' on {camera.topic}{why}")
            age_s = _age_s(now, sample.stamp_ns)
            if age_s > self._parameters.camera_max_age_s:
                why = f' (last refused: {camera.last_rejection})' if camera.last_rejection else ''
                raise NotReady(
                    'stale',
                    f"camera '{slot}' is {age_s:.3f} s old, limit {self._parameters.camera_max_age_s} s{why}",
                )
            stamps[slot] = sample.stamp_ns
        newest = max(stamps, key=stamps.get)
        oldest = min(stamps, key=stamps.get)
        gap_s = (stamps[newest] - stamps[oldest]) / 1e9
        if gap_s > self._parameters.camera_max_spread_s:
            raise NotReady(
                'spread',
                f"cameras '{newest}' and '{oldest}' are {gap_s:.3f} s apart, "
                f'limit {self._parameters.camera_max_spread_s} s',
            )

    def _check_joints(self, now: Moment) -> None:
        names = self._parameters.known_joints
        missing = [name for name in names if name not in self._joints]
        if missing:
            arrived = [*self._joints, *self._other_names]
            raise NotReady(
                'missing',
                f'no value of {", ".join(self._parameters.joint_prefix + name for name in missing)} on '
                f'{", ".join(self._joint_streams)}; names that arrived: {", ".join(arrived) or "none"}',
            )
        broken = [
            f'{name} ({self._joints[name].position})'
            for name in names
            if not math.isfinite(self._joints[name].position)
        ]
        if broken:
            raise NotReady('not_finite', f'position of {", ".join(broken)} is not a finite number')
        oldest = min(names, key=lambda name: self._joints[name].stamp_ns)
        age_s = _age_s(now, self._joints[oldest].stamp_ns)
        if not age_s <= self._parameters.joint_max_age_s:
            raise NotReady(
                'stale', f"joint '{oldest}' is {age_s:.3f} s old, limit {self._parameters.joint_max_age_s} s"
            )


def _behind(joints: list[str]) -> str:
    return f'stamp is behind the values in use of {", ".join(joints)}'


def _age_s(now: Moment, stamp_ns: int) -> float:
    """Never negative: a stamp within max_clock_skew_s of the future is from now."""
    return max(0, now.ros_ns - stamp_ns) / 1e9
