"""The signals by which a server is told to stop in order."""

from __future__ import annotations

import signal


def stop_signals() -> tuple[signal.Signals, ...]:
    """Returns SIGINT, SIGTERM, and SIGHUP, which comes when the server's terminal is closed.

    SIGHUP is left out where it is ignored, as under `nohup`, and on Windows, which has none.
    """
    told = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        told.append(hangup)
    return tuple(told)
