"""`everturn` for scripts and other programs: asks for a child of the process that has imported all.

It gives the child its own streams, arguments, environment and folder, hands signals on, and ends
as the child does. It is run with `-I -S`, and so starts in a hundredth of a second. A SIGKILL it
cannot hand on: what is killed so is started in another way.
"""

import contextlib
import json
import os
import signal
import socket
import sys

_STREAMS = 3


def main(address: str, arguments: list[str]) -> int:
    """Run the command; return its exit code.

    Args:
        address: Where `warm_start` listens.
        arguments: Those of `everturn`.
    """
    handed_on = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, handed_on)  # until there is somebody to give them to
    told, tells = os.pipe()
    request = {
        "arguments": arguments,
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "has_terminal": False,
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(f"\0{address}")
        socket.send_fds(line, [json.dumps(request).encode()], [*range(_STREAMS), tells])
        os.close(tells)
        with open(told) as answers:
            pid = int(answers.readline())
            for each in handed_on:
                signal.signal(each, lambda number, _frame: _hand_on(pid, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)
            for stream in range(_STREAMS):  # who reads them sees when the child closes them
                os.close(stream)
            code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _hand_on(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended just now
        os.kill(pid, number)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]))
