# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""Processes that are told what to do in lines of text, and answer each with a line of JSON."""

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from flashrt_core.errors import Error

_ANSWER_S, _END_S = 20.0, 5.0

Answer = Mapping[str, object]


class Child:
    """The side of the parent: starts the process, waits until it is ready, and ends it whatever happens."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self._name = module.rpartition('.')[2]
        self._log = log
        self._answers: queue.Queue[str] = queue.Queue()
        with log.open('ab') as errors:
            self._process = subprocess.Popen(
                [sys.executable, '-m', module, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1,
                start_new_session=True,  # Ctrl-C reaches the parent only
            )  # fmt: skip
        threading.Thread(target=self._read, name=f'read {self._name}', daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ready(self) -> Answer:
        """Its first line, which it says by itself."""
        return self._answer('to begin')

    def ask(self, line: str) -> Answer:
        try:
            self._process.stdin.write(line + '\n')
        except BrokenPipeError:
            raise self._fault(f'to be told: {line}') from None
        return self._answer(line)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> int:
        """The end of its input ends it, also one that was stopped; returns its code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                return self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(number)
        return self._process.wait()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._answers.put(line)
        self._process.wait()
        self._answers.put('')  # nothing comes any more

    def _answer(self, what: str) -> Answer:
        try:
            line = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            line = ''
        if not line:
            raise self._fault(what)
        answer = json.loads(line)
        if 'fault' in answer:
            raise Error(f'the {self._name} process: {answer["fault"]}')
        return answer

    def _fault(self, what: str) -> Error:
        code = self._process.poll()
        state = f'has ended with code {code}' if code is not None else f'has not answered in {_ANSWER_S:g} s'
        return Error(f'the {self._name} process {state}, asked {what}; its log is {self._log}')


class Parent:
    """The side of the child: answers in a thread of its own until the parent closes the line."""

    def __init__(self, handle: Callable[[str], Answer]) -> None:
        self._handle = handle
        self.is_gone = threading.Event()

    def listen(self, ready: Answer) -> None:
        """Says that the process is ready and answers from now on."""
        self._say(ready)
        threading.Thread(target=self._listen, name='parent', daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            try:
                self._say(self._handle(line.strip()))
            except (Error, ValueError) as error:
                self._say({'fault': f'{line.strip()}: {error}'})
        self.is_gone.set()

    def _say(self, answer: Answer) -> None:
        print(json.dumps(answer), flush=True)
