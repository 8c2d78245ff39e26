"""The queue of kernel launches, and the threads that run them.

Launches run in order, asynchronously: ``submit`` returns a ticket at once, ``wait`` returns when it is done, and host
memory whose last use has a ticket may be touched by the host only then.  Kernels need no such care: memory that is
freed may be used again by a later launch, because launches are in order.

The threads are native (:mod:`drjit_core.llvm.threads`): waking one through the interpreter costs 33-55 us.  They keep
off the caller's processor, and block all signals.  They start with the first launch of several blocks; on a fresh
installation, where their code must be compiled first, once the caller's thread has worked as long as that takes.  A
launch that is short while the queue is empty runs on the caller's thread.  Where there is no futex everything does, and
with one thread (``DRJIT_THREADS=1``) all but what follows.

A kernel that is not *bounded* (nobody knows how long its loops are, or it needs much of the stack) never runs on a
thread of the interpreter, if it can be helped: the caller's thread waits for it in slices, in which other threads run
and Ctrl-C is heard.

The pool decides how many threads there are, once per life, before a program is assembled that depends on it; affinity
masks that change later change nothing.

:data:`..exclusion.lock` serialises whoever submits, starts or stops: one thread at a time evaluates.  Waiting needs no
lock.  Tickets grow over the whole life of the process, whatever becomes of the threads (``set_thread_count``,
``fork``), so that the ticket of a buffer is never waited for in vain.  ``docs/pool.md`` argues why the protocol is
right.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import logging
import math
import os
import platform
import signal
import sys
import time
from typing import Any

from ...llvm import jit, threads
from .. import disk, exclusion
from ..exclusion import lock
from .launches import INLINE_WORK, SHORT_WORK, Launch, run
from .natives import load_native, load_or_compile

__all__ = ["decided_threads", "finish", "hold_across_fork", "is_done", "keep_when_leaving", "set_thread_count",
           "submit", "submitted", "thread_count", "thread_report", "wait"]

#: Elements times operations that the caller's thread works off before the pool's code is compiled, unless it is on
#: disk: some 8 ms, as long as that takes.
_WORK_BEFORE_COMPILING = 1 << 24
#: Seconds that a wait holds signals up.
_SLICE = 0.05

_log = logging.getLogger("drjit")
_SUBMIT = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_STOP = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_SUBMITTED_WORD, _COMPLETED_WORD = threads.SUBMITTED, threads.COMPLETED


#: LLVM's level for the pool's text: what takes the time in it are atomic instructions, so that optimising costs 20 ms
#: and gains nothing that can be measured.
_LEVEL = 0


@functools.cache
def _code_on_disk() -> jit.NativeCode | None:
    return load_native(_KEY, threads.pool_text(platform.machine()), threads.EXPORTS, _LEVEL)


@functools.cache
def _code() -> jit.NativeCode:
    return _code_on_disk() or load_or_compile(_KEY, threads.pool_text(platform.machine()), threads.EXPORTS, _LEVEL)


_KEY = "pool"


#: Bytes of a thread's stack, of which local memory takes 1 MiB at most (see :mod:`drjit_core.control.extend`); and more
#: than the attributes of a thread take in any library of C.
_STACK_BYTES, _ATTRIBUTES_BYTES = 8 << 20, 128


class _Pool:
    """The native queue with its threads, one of which is the host's; tickets go on from ``last``.

    With one thread in all, the stand-in is the only native one, and works off all that is queued.
    """

    def __init__(self, last: int, count: int) -> None:
        self.memory = (ctypes.c_int64 * (threads.WORDS + 16))()
        self.address = (ctypes.addressof(self.memory) + 127) & -128
        self.words = (ctypes.c_int64 * threads.WORDS).from_address(self.address)
        self.words[threads.SUBMITTED] = self.words[threads.COMPLETED] = self.words[threads.ASKED] = last
        self.count = count
        #: Launches that may not have run yet, by ticket; those before ``oldest`` have been let go.
        self.kept: dict[int, Launch] = {}
        self.oldest = last + 1
        self.last_unbounded = last  # ticket of the last launch that nobody knows the length of
        self.given_up = last  # ticket of a launch that somebody stopped waiting for
        self.code = _code()
        addresses = self.code.addresses
        self.submit_native = _SUBMIT(addresses["pool_submit"])
        self.wait_native = _WAIT(addresses["pool_wait"])
        self.stop_native = _STOP(addresses["pool_stop"])
        library = ctypes.CDLL(None)
        self.library = library
        self.words[threads.SYSCALL] = ctypes.cast(library.syscall, ctypes.c_void_p).value or 0
        self.words[threads.CLOCK] = ctypes.cast(library.clock_gettime, ctypes.c_void_p).value or 0
        self.workers: list[int] = []
        self.arguments: list[Any] = []
        self.stand_in = False  # there is one
        self.stand_in_wanted = True
        self.uncertain = False  # a thread may have been created that is not listed

    def start(self, workers: int) -> None:
        """Create the workers, with all signals blocked, on processors other than the caller's."""
        others = _other_processors()
        for index in range(workers):
            if not self._create(index + 1, threads.SUBMITTED, threads.IDLE, others):
                break

    def start_stand_in(self) -> None:
        """Create the thread that works in the place of those who wait, if that has not been tried yet."""
        if self.stand_in_wanted:
            words = (threads.SUBMITTED, threads.IDLE) if self.count == 1 else (threads.ASKED, threads.ASIDE)
            self.stand_in = self._create(0, *words, _other_processors() if self.count == 1 else None)
            self.stand_in_wanted = False

    def _create(self, number: int, wanted: int, sleepers: int, processors: Any) -> bool:
        """Create a thread with a number that works up to the launch in a word; whether that was possible."""
        argument = (ctypes.c_int64 * 4)(self.address, number, self.address + 8 * wanted, self.address + 8 * sleepers)
        self.arguments.append(argument)
        entry = ctypes.c_void_p(self.code.addresses["pool_worker"])
        thread = ctypes.c_ulong()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.uncertain = True
            failed = self.library.pthread_create(ctypes.byref(thread), self._attributes(), entry,
                                                 ctypes.byref(argument))
            if not failed:
                self.workers.append(thread.value)
            self.uncertain = False
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if failed:
            _log.warning("cannot start thread %i of %i (error %i)", len(self.workers) + 1, self.count, failed)
            return False
        if processors is not None:
            self.library.pthread_setaffinity_np(thread, ctypes.c_size_t(len(processors)), processors)
        return True

    def _attributes(self) -> Any:
        """What threads are created with: a stack that kernels with local memory fit into, whatever the system gives."""
        attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
        if self.library.pthread_attr_init(attributes):
            return None
        self.library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
        return attributes

    @property
    def submitted(self) -> int:
        """Ticket of the last launch that was enqueued."""
        return self.words[_SUBMITTED_WORD]

    @property
    def completed(self) -> int:
        """Ticket of the last launch that has finished."""
        return self.words[_COMPLETED_WORD]

    @property
    def may_never_end(self) -> bool:
        """Whether a launch is queued that nobody knows the length of."""
        return self.words[_COMPLETED_WORD] < self.last_unbounded

    def let_go(self) -> None:
        """Forget the launches that have finished; several threads may do so at once."""
        completed = self.words[_COMPLETED_WORD]
        oldest = self.oldest
        if oldest <= completed:
            for ticket in range(oldest, completed + 1):
                launch = self.kept.pop(ticket, None)
                if launch is not None:
                    launch.keep = None  # the kernel history may hold the launch for long
            self.oldest = completed + 1

    def submit(self, launch: Launch) -> int:
        """Enqueue a launch."""
        self.let_go()
        words = self.words
        last = words[_SUBMITTED_WORD]
        if last - words[_COMPLETED_WORD] >= threads.SLOTS - 2:
            self.wait(last - threads.SLOTS // 2)
        functions, native = launch.functions, self.submit_native
        kernel, combine = functions.addresses
        times = ctypes.addressof(launch.times) if launch.times is not None else None
        shape = launch.shape
        assert shape.width > 0, "a launch without blocks never ends"
        unattended = self.stand_in and (not shape.bounded or self.count == 1)
        arguments = (self.address, last + 1, kernel, combine, launch.address, shape.width, shape.blocks, shape.block,
                     times, unattended)
        self.kept[last + 1] = launch
        if not shape.bounded:
            self.last_unbounded = last + 1
        launch.begun = True
        native(*arguments)
        return last + 1

    def wait(self, ticket: int, until: float = math.inf) -> bool:
        """Help until a launch has finished, or a time has come; signals are handled between slices."""
        native, address, nanoseconds = self.wait_native, self.address, int(_SLICE * 1e9)
        try:
            while not native(address, ticket, nanoseconds):
                if time.monotonic() > until:
                    return False
        except BaseException:
            self.given_up = max(self.given_up, ticket)
            raise
        self.let_go()
        return True

    def stop(self) -> None:
        """Finish what is queued and end the threads; goes on where an earlier call was interrupted."""
        self.wait(self.submitted)
        self.stop_native(self.address)
        while self.workers:
            self.library.pthread_join(ctypes.c_ulong(self.workers[-1]), None)
            self.workers.pop()


def _other_processors() -> Any:
    """Processor set without the caller's processor, for ``pthread_setaffinity_np``; ``None`` if that leaves nothing."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "sched_getcpu") or not hasattr(os, "sched_getaffinity"):
        return None
    others = os.sched_getaffinity(0) - {library.sched_getcpu()}
    if not others:
        return None
    mask = bytearray(max(128, (max(others) // 64 + 1) * 8))
    for processor in others:
        mask[processor // 8] |= 1 << processor % 8
    return (ctypes.c_char * len(mask)).from_buffer(mask)


# --- the one pool of the process -------------------------------------------------------------------------------------

_pool: _Pool | None = None
_last = 0  # ticket of the last launch while there is no pool
_requested_count: int | None = None  # threads, the caller's included; None: as the environment says
_count: int | None = None  # threads that programs are assembled for; None: not decided yet
_worked = 0  # elements times operations of launches that ran on the caller's thread for want of a compiled pool
_leaving = False  # the interpreter exits: no thread is started anymore
_forsaken = ""  # why nothing can be run anymore: a kernel had not ended when this process was forked, or was to end
#: Pools whose threads have not all been joined, so that their memory must stay.
_ending: list[_Pool] = []


@functools.cache
def is_supported() -> bool:
    """Whether kernels can run on threads of their own on this machine."""
    return sys.platform == "linux" and threads.is_supported(platform.machine())


@functools.cache
def _requested() -> int | None:
    """The number of threads that the environment variable ``DRJIT_THREADS`` asks for."""
    value = os.environ.get("DRJIT_THREADS", "")
    if not value:
        return None
    try:
        return _checked("DRJIT_THREADS", int(value))
    except ValueError:
        _log.warning("DRJIT_THREADS must be a number of threads in [0, %i], found %r: ignored", _MOST_THREADS, value)
        return None


def _checked(name: str, count: int) -> int:
    if not 0 <= count <= _MOST_THREADS:
        raise ValueError(f"{name}: the number of threads must lie in [0, {_MOST_THREADS}], found {count}")
    return max(1, count)


_MOST_THREADS = 1024


def thread_count() -> int:
    """Number of threads that run kernels, the calling one included.

    As many as there are processors, unless ``set_thread_count`` or the environment variable ``DRJIT_THREADS`` says
    otherwise; with 1, and wherever threads of our own are not supported, kernels run on the calling thread.
    """
    if not is_supported():
        return 1
    decided = _count  # another thread may be about to decide anew
    if decided is not None:
        return decided
    if _requested_count is not None:
        return _requested_count
    requested = _requested()
    if requested is not None:
        return requested
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_report() -> str:
    """The number of threads, and what follows from it or explains it."""
    count = thread_count()
    if not is_supported():
        return (f"1: kernels run on the calling thread (the pool needs Linux on x86-64 or AArch64, found "
                f"{sys.platform} on {platform.machine()})")
    reason = "set_thread_count" if _requested_count is not None else f"DRJIT_THREADS={count}" if _requested() else ""
    if count == 1:
        return f"1: kernels run on the calling thread, but for loops ({reason or 'there is one processor'})"
    return f"{count} ({reason})" if reason else str(count)


def set_thread_count(count: int, /) -> None:
    """Set the number of threads that run kernels, the calling one included; 0 and 1 both mean the calling one alone.

    Waits for what is queued.
    """
    global _count, _requested_count
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"drjit.set_thread_count(): the number of threads must be an int, found {type(count).__name__}")
    count = _checked("drjit.set_thread_count()", count)
    with lock:
        if exclusion.evaluating:
            raise RuntimeError("drjit.set_thread_count(): the number of threads cannot change in the midst of an "
                               "evaluation of the same thread, by a signal handler or a finaliser")
        shut_down()
        _requested_count, _count = count, None


def _started() -> _Pool:
    """The pool, started with the number of threads that programs are assembled for."""
    global _pool
    if _pool is None:
        _join()
        pool = _Pool(_last, thread_count())
        _ending.append(pool)
        try:
            pool.start(pool.count - 1)
        except BaseException:  # threads must not outlive the memory that they look at
            _join()
            raise
        _pool = pool
        _ending.remove(pool)  # only now: an interrupt may come at any time
    return _pool


def _join() -> None:
    """End the threads of pools that are no longer used; interrupted, it goes on when it is called again."""
    while _ending:
        pool = _ending[-1]
        pool.stop()
        if pool.uncertain:  # an interrupt came just when a thread was created: it may be alive
            _kept_for_good.append(pool)
        _ending.remove(pool)


_kept_for_good: list[_Pool] = []


def decided_threads() -> int:
    """The number of threads that programs are assembled for from now on: as long as they live, or, if there are none
    yet, what is asked for now.  The caller holds :data:`..exclusion.lock`.
    """
    global _count
    if _pool is not None:
        return thread_count()
    _count = None
    _count = count = thread_count()
    return count


#: Targets of scatter-reductions with more elements get no tables per thread, unless that is asked for.
_expand_threshold = 1_000_000


def get_expand_threshold() -> int:
    """Number of elements up to which scatter-reductions use a table per thread."""
    return _expand_threshold


def set_expand_threshold(value: int, /) -> None:
    """Set the number of elements up to which scatter-reductions use a table per thread."""
    global _expand_threshold
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"drjit.set_expand_threshold(): expected a number of elements, found {value!r}")
    _expand_threshold = value


def submit(launch: Launch) -> int:
    """Enqueue a launch, or run it at once if it is short and nothing is queued; returns its ticket.

    The caller holds :data:`lock`.
    """
    if _forsaken:
        raise RuntimeError(_forsaken)
    shape = launch.shape
    if not shape.bounded:
        expect_unbounded()
        pool = _pool
        if pool is not None and (pool.stand_in or pool.count > 1 or pool.completed != pool.submitted):
            return pool.submit(launch)
        run(launch, False)
        return submitted()
    pool = _pool
    work = shape.work
    short = work < INLINE_WORK or shape.blocks == 1
    if pool is None and not short and _worth_starting(work):
        pool = _started()
    if pool is not None and not (pool.completed == pool.submitted and (short or pool.count == 1)):
        return pool.submit(launch)
    run(launch, work < SHORT_WORK)
    return submitted()


def expect_unbounded() -> None:
    """Start what lets a launch be waited for and given up of which nobody knows how long it takes, if that can be."""
    if _leaving or not is_supported():
        return
    (_pool or _started()).start_stand_in()


def _worth_starting(work: int) -> bool:
    """Whether to start the pool for a launch of several blocks."""
    global _worked
    if _leaving or thread_count() == 1:
        return False
    if _worked + work < _WORK_BEFORE_COMPILING and _code_on_disk() is None:
        _worked += work
        return False
    return True


def submitted() -> int:
    """Ticket of the last launch."""
    pool = _pool
    return pool.submitted if pool is not None else _last


def wait(ticket: int | None = None) -> None:
    """Wait for a launch, or for all of them."""
    pool = _pool
    if pool is not None:
        target = pool.submitted if ticket is None else ticket
        if pool.completed < target:
            if _forsaken:
                raise RuntimeError(_forsaken)
            pool.wait(target)
        else:
            pool.let_go()
    elif _forsaken:
        raise RuntimeError(_forsaken)


def is_done(ticket: int) -> bool:
    """Whether a launch has finished."""
    pool = _pool
    return pool is None or pool.completed >= ticket


def shut_down() -> None:
    """Finish what is queued and end the threads; they start again when needed."""
    global _pool, _last, _count
    with lock:
        pool = _pool
        if pool is not None:
            if _forsaken:
                raise RuntimeError(_forsaken)
            pool.wait(pool.submitted)
            _ending.append(pool)
            _last = pool.submitted
            _pool = _count = None
        _join()


def finish() -> bool:
    """At exit: wait for what is queued, but only so long for a kernel that may never end; whether all is done.

    The wait is shorter if somebody has stopped waiting for that kernel before.
    """
    global _exit_begun
    pool = _pool
    if pool is None:
        return True
    if not _exit_begun:
        _exit_begun = time.monotonic()
    until = math.inf
    if pool.may_never_end:
        until = _exit_begun + (_IMPATIENT_EXIT_TIMEOUT if pool.completed < pool.given_up else _EXIT_TIMEOUT)
    return pool.wait(pool.submitted, until)


def _leave() -> None:
    """At exit: end the threads, which would otherwise run code that is being unloaded.

    The lock is kept: daemon threads that evaluate from now on wait for the end of the process.  What this thread
    evaluates from now on, it runs itself.

    A kernel that does not end runs on until the process is gone: what it uses must not be taken away from it.
    """
    global _leaving
    _leaving = True
    try:
        if finish() and lock.acquire(timeout=_EXIT_TIMEOUT) and finish():
            shut_down()
            return
    except BaseException:
        _forsake("the interpreter exits while a kernel runs")
        raise
    _forsake("the interpreter exits while a kernel runs")
    if _pool is not None and _pool.may_never_end:
        _log.warning("a kernel with a loop had not ended %.3g s after the end of the program, which leaves without it",
                     time.monotonic() - _exit_begun)


def _forsake(reason: str) -> None:
    """Run nothing anymore, and see to it that what a running kernel uses stays until the process is gone."""
    global _forsaken
    _forsaken = reason
    engine = jit.engine() if jit.engine.cache_info().currsize else None
    for each in (_pool, _ending, _kept_for_good, engine, *_kept_when_leaving):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


_kept_when_leaving: list[Any] = []


def keep_when_leaving(*objects: Any) -> None:
    """Add what must not be freed as long as a kernel runs."""
    _kept_when_leaving.extend(objects)


#: Seconds that the end of the process waits for kernels of unknown length; the second if somebody gave up before.
_EXIT_TIMEOUT, _IMPATIENT_EXIT_TIMEOUT = 60.0, 1.0
_exit_begun = 0.0
atexit.register(_leave)


# --- fork ------------------------------------------------------------------------------------------------------------

#: Acquired before a fork, in this order, and released on both sides: a child must find no lock taken by a thread that
#: it does not have, and no launch in flight that nobody finishes.
_held_across_fork: list[Any] = [lock]


def hold_across_fork(*locks: Any) -> None:
    """Add locks that are taken after :data:`lock`."""
    _held_across_fork.extend(locks)


def _before_fork() -> None:
    interrupt: BaseException | None = None  # it cannot keep a fork from happening, and so comes when all is done
    for each in _held_across_fork:
        acquired = False
        while not acquired:
            try:
                acquired = each.acquire()
            except BaseException as error:  # of a signal handler, while another thread has the lock
                interrupt = error
    while not is_done(submitted()):
        try:
            wait()
        except KeyboardInterrupt as error:
            interrupt = error
            if _pool is not None and _pool.may_never_end:
                break
        except RuntimeError:
            break  # forsaken already
    if interrupt is not None:
        raise interrupt


def _after_fork() -> None:
    for each in reversed(_held_across_fork):
        each.release()


def _in_child() -> None:
    global _pool, _last, _count, _forsaken
    pool = _pool
    if pool is not None:
        if pool.completed < pool.submitted and not _forsaken:
            _forsaken = ("this process was forked while a kernel ran, which did not end: its results, and those of "
                         "later ones, do not exist here")
        _last = pool.submitted
        _pool = None  # the threads are gone
    if not exclusion.evaluating:
        _count = None
    _ending.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):
    hold_across_fork(disk.lock, jit.lock)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
