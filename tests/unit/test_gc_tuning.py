"""The collector stops nobody for what has long been there, and finds circles all the same."""

import gc
import sys
import weakref

import pytest

from everturn_gateway.gc_tuning import loading, look_through_when_idle, short_rounds
from everturn_gateway.late_loading import loading_late

MANY = 1_000


class _Circle:
    """Refers to itself, and to much else that does."""

    def __init__(self) -> None:
        self.held = [[self] for _ in range(MANY)]


class _OverError(Exception):
    """There are no more looks."""


async def _look(*, is_idle: bool) -> bool:
    """Let a circle become garbage when it is old; return whether a look through all found it."""
    circle = _Circle()
    found = weakref.ref(circle)
    looks = 0

    async def sleep(seconds: float) -> None:
        nonlocal circle, looks
        assert seconds > 0
        looks += 1
        if looks > 1:
            raise _OverError
        gc.collect()  # the circle is in use, and set aside
        del circle
        gc.collect()
        assert found() is not None

    async def idle() -> bool:
        return is_idle

    with short_rounds(), pytest.raises(_OverError):
        await look_through_when_idle(idle, sleep, many_objects=MANY // 10)
    return found() is None


async def test_a_circle_among_old_objects_is_found_when_nobody_talks() -> None:
    """And only then."""
    # A gateway that runs for months must not keep what nobody can reach.
    assert await _look(is_idle=True)

    # Nobody who talks waits for a look at all objects. It stops every conversation, the longer the
    # more of them there are.
    assert not await _look(is_idle=False)


def test_what_is_loaded_is_not_walked() -> None:
    """And all is as before when it was loaded, or is not there."""
    # A library that is loaded late stops nobody. The next round would walk all of it, and the loop
    # waits for the thread that loads it.
    usual_s = sys.getswitchinterval()
    with short_rounds():
        before = gc.get_freeze_count()
        with loading_late():
            while_loading = (gc.isenabled(), sys.getswitchinterval() < usual_s)
            library: list[list[int]] = [[] for _ in range(MANY)]
        set_aside = gc.get_freeze_count() - before

    assert while_loading == (False, True)
    assert set_aside >= len(library)
    assert (gc.isenabled(), sys.getswitchinterval()) == (True, usual_s)

    # What a command loads is not walked while it runs. `everturn run` opens a whole gateway in the
    # middle of its work.
    before = gc.get_freeze_count()
    with loading():
        is_walking = gc.isenabled()
        gateway: list[list[int]] = [[] for _ in range(MANY)]

    assert not is_walking
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(gateway)

    # A library that is missing leaves everything as it was. Extras are not installed everywhere;
    # the gateway goes on without them for months.
    usual_s = sys.getswitchinterval()

    with pytest.raises(ModuleNotFoundError), loading_late(), loading_late():
        raise ModuleNotFoundError

    assert (gc.isenabled(), sys.getswitchinterval()) == (True, usual_s)
