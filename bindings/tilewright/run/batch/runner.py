"""The process that does tasks of `Processes`: a task as a JSON line in, its answer as a JSON line out.

It ends with standard input, whatever it is doing: then the parent is gone, or wants it gone.
"""

from __future__ import annotations

import os
import queue
import signal
import threading

from tilewright.run.batch.tasks import perform_told


def main() -> None:
    """Do the tasks that come from standard input, one after the other."""
    # Solvers print where they like; answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    while True:
        answers.write(perform_told(tasks.get().decode()) + "\n")
        answers.flush()


def _read(tasks: queue.SimpleQueue[bytes]) -> None:
    """Hand tasks on while one is in hand, so that the parent's end is noticed at once."""
    with os.fdopen(os.dup(0), "rb") as lines:
        for line in lines:
            tasks.put(line)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
