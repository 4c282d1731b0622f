"""How many files and connections this process may have open."""

from __future__ import annotations

import logging
import resource
from typing import Final

from everturn_gateway.http.limits import BESIDE_CONNECTIONS

logger = logging.getLogger(__name__)

MOST: Final = 65_536  # beyond it some systems refuse, and nothing here needs more


def raise_descriptor_limit(max_connections: int) -> int:
    """Raise the soft limit of descriptors to the hard one, within bounds; return what holds.

    Where it stays too low for `max_connections` the log says what to do.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            logger.warning(
                "the limit of open files cannot be raised",
                extra={"limit": soft, "wanted": wanted, "error": str(error)},
            )
    if soft != resource.RLIM_INFINITY and soft < max_connections + BESIDE_CONNECTIONS:
        logger.warning(
            "fewer files may be open than server.max_connections needs, so fewer connections are"
            " taken; raise the hard limit"
            " (`ulimit -Hn`, LimitNOFILE) or lower the setting",
            extra={"limit": soft, "needed": max_connections + BESIDE_CONNECTIONS},
        )
    return soft
