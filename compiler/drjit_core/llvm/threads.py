"""LLVM text of the thread pool: workers that need no interpreter, and the functions with which the host drives them.

One in-order queue.  Launch ``n`` (1, 2, 3 …) lies in slot ``n % SLOTS`` of a ring and may start when ``completed`` is
``n - 1``.  Its blocks are handed out by a *ticket*, generation and next block in one word, taken by compare-exchange: a
late worker that still looks at a recycled slot fails on the generation.  Whoever finishes the last block combines the
partial results and publishes ``completed``, a monotonic count that is at once the fence of buffers and the futex word.

Workers have the numbers 1, 2, …; number 0 belongs to a host thread that helps while it waits, one at a time.  Kernels
whose length nobody knows are *unattended*: no host thread helps with them, because it could not look for signals
meanwhile.  Another native thread, the *stand-in*, does so in its place, under the same number and the same claim; a
waiting host thread asks for it.  With one thread in all, the stand-in is the only worker, and everything that is queued
is unattended.

Memory of the pool, in 64-bit words: word 0 ``submitted``, 8 ``completed``, 16 sleepers on the former, 24 sleepers on
the latter, 32 stop, 40 and 41 the addresses of ``syscall`` and ``clock_gettime``, 48 whether number 0 is taken, 56
``asked`` (the launch up to which the stand-in works) and 57 its sleepers; from word 64 on, slots of 16 words: ticket,
kernel, combine, parameters, width, blocks, block size, blocks not finished, times, unattended.
"""

from __future__ import annotations

from .writer import Writer

__all__ = ["ASIDE", "ASKED", "CLOCK", "COMPLETED", "EXPORTS", "IDLE", "SLOTS", "SUBMITTED", "SYSCALL", "WORDS",
           "is_supported", "pool_text"]

SLOTS = 1024
_RING = 64
WORDS = _RING + 16 * SLOTS
#: Words of the pool's memory: counters, and how many sleep on them.
SUBMITTED, COMPLETED, IDLE, _WAITING, _STOP, _HELPER, ASKED, ASIDE = 0, 8, 16, 24, 32, 48, 56, 57
#: Words that hold addresses of the system's functions.
SYSCALL, CLOCK = 40, 41
#: Words of a slot, the first of which is the ticket.
_KERNEL, _COMBINE, _PARAMETERS, _WIDTH, _BLOCKS, _SIZE, _UNFINISHED, _TIMES, _UNATTENDED = range(1, 10)
EXPORTS = ("pool_worker", "pool_submit", "pool_wait", "pool_stop")

#: How often a thread looks again before it sleeps: some 40 us.  Waking a thread takes 30 us and more, as long as Python
#: needs for the next launch: in a loop of launches of 256k elements, looking for 5 us makes an iteration take 71 us
#: instead of 52.
_SPINS = 1000

_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_STORE_FENCE = {"x86_64": "call void @llvm.x86.sse.sfence()", "aarch64": "fence seq_cst"}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE


def is_supported(machine: str) -> bool:
    """Whether there is a pool for a machine (as ``platform.machine()`` names it)."""
    return machine in _FUTEX


def pool_text(machine: str) -> str:
    """The module's text for a machine."""
    w = _Pool(machine)
    w.write_futex()
    w.write_now()
    w.write_run_block()
    w.write_spin()
    w.write_sleep()
    w.write_take()
    w.write_worker()
    w.write_submit()
    w.write_wait()
    w.write_stop()
    return w.text('attributes #0 = { nounwind "frame-pointer"="none" }')


class _Pool(Writer):
    """Writes the functions of the pool."""

    def __init__(self, machine: str) -> None:
        super().__init__()
        self.pause, self.fence, self.futex = _PAUSE[machine], _STORE_FENCE[machine], _FUTEX[machine]

    # --- words of memory ---------------------------------------------------------------------------------------------

    def word(self, base: str, number: int) -> str:
        """The address of a word."""
        return self(f"getelementptr inbounds i64, ptr {base}, i64 {number}")

    def get(self, base: str, number: int, type_: str = "i64") -> str:
        """What a word contains."""
        return self(f"load {type_}, ptr {self.word(base, number)}")

    def put(self, base: str, number: int, value: str) -> None:
        """Set a word; the value has its type."""
        self.line(f"store {value}, ptr {self.word(base, number)}")

    def shared(self, address: str, order: str = "acquire") -> str:
        """What a word contains that threads change."""
        return self(f"load atomic i64, ptr {address} {order}, align 8")

    def share(self, value: object, address: str, order: str) -> None:
        """Set a word that threads look at."""
        self.line(f"store atomic i64 {value}, ptr {address} {order}, align 8")

    def change(self, operation: str, address: str, value: object, order: str = "seq_cst") -> str:
        """Change a word at once; what it was."""
        return self(f"atomicrmw {operation} ptr {address}, i64 {value} {order}, align 8")

    def exchange(self, address: str, old: object, new: object, orders: str) -> tuple[str, str]:
        """Set a word if it has a value; what it was, and whether it had."""
        pair = self(f"cmpxchg ptr {address}, i64 {old}, i64 {new} {orders}, align 8")
        return self(f"extractvalue {{ i64, i1 }} {pair}, 0"), self(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def slot(self, launch: str) -> str:
        """The address of the slot of a launch."""
        offset = self.add(self(f"shl i64 {self.and_(launch, SLOTS - 1)}, 4"), _RING)
        return self(f"getelementptr inbounds i64, ptr %pool, i64 {offset}")

    def wake(self, sleepers: int, word: str) -> None:
        """Wake those that sleep on a word, if there are any."""
        count = self.shared(self.word("%pool", sleepers), "seq_cst")
        self.branch(self(f"icmp ne i64 {count}, 0"), lambda: self.run("futex_wake", "ptr %pool", f"ptr {word}"))

    # --- the system --------------------------------------------------------------------------------------------------

    def write_futex(self) -> None:
        """Sleep while a word has a value, and wake those that do."""
        self.function("internal void @futex_wait(ptr %pool, ptr %word, i64 %value, ptr %timeout)")
        syscall, low = self.get("%pool", SYSCALL, "ptr"), self("trunc i64 %value to i32")
        self(f"call i64 (i64, ...) {syscall}(i64 {self.futex}, ptr %word, i32 {_WAIT}, i32 {low}, ptr %timeout, "
             "ptr null, i32 0)")
        self.end()
        self.function("internal void @futex_wake(ptr %pool, ptr %word)")
        syscall = self.get("%pool", SYSCALL, "ptr")
        self(f"call i64 (i64, ...) {syscall}(i64 {self.futex}, ptr %word, i32 {_WAKE}, i32 2147483647, ptr null, "
             "ptr null, i32 0)")
        self.end()

    def write_now(self) -> None:
        """Nanoseconds of the monotonic clock."""
        self.function("internal i64 @now(ptr %pool)")
        time = self("alloca [2 x i64]")
        self(f"call i32 {self.get('%pool', CLOCK, 'ptr')}(i32 1, ptr {time})")
        seconds, fraction = self.get(time, 0), self.get(time, 1)
        self.end(f"i64 {self.add(self.mul(seconds, 1000000000), fraction)}")

    # --- what all threads do -----------------------------------------------------------------------------------------

    def write_run_block(self) -> None:
        """Take and run one block of launch n; 0 if there is none left to take."""
        self.function("internal i32 @run_block(ptr %pool, i64 %n, i32 %worker)")
        slot, generation = self.slot("%n"), self("shl i64 %n, 32")
        blocks_at = self.word(slot, _BLOCKS)

        def attempt(values: list[str]) -> tuple[str, list[str]]:
            ticket, = values
            current = self(f"icmp eq i64 {self.and_(ticket, -4294967296)}, {generation}")
            left = self(f"icmp ult i64 {self.and_(ticket, 4294967295)}, {self.shared(blocks_at)}")
            free = self(f"and i1 {current}, {left}")
            self.leave(self(f"xor i1 {free}, true"), "i32 0")
            found, taken = self.exchange(slot, ticket, self.add(ticket, 1), "acq_rel acquire")
            return taken, [found]

        ticket, = self.until([("i64", self.shared(slot))], attempt)  # it is what was found, once that was taken
        block, blocks = self.and_(ticket, 4294967295), self.shared(blocks_at)
        kernel, combine, parameters = (self.get(slot, word, "ptr") for word in (_KERNEL, _COMBINE, _PARAMETERS))
        width, size = self.get(slot, _WIDTH), self.get(slot, _SIZE)
        times = self.get(slot, _TIMES, "ptr")
        timed = self(f"icmp ne ptr {times}, null")
        begins = self(f"and i1 {timed}, {self(f'icmp eq i64 {block}, 0')}")
        self.branch(begins, lambda: self.put(times, 0, f"i64 {self.call('i64', 'now', 'ptr %pool')}"))
        begin = self.mul(block, size)
        end = self.minimum(self.add(begin, size), width)
        self.line(f"call void {kernel}(ptr {parameters}, i64 0, i64 1, i64 {begin}, i64 {end}, i64 {block}, "
                  "i32 %worker)")
        self.line(self.fence)
        before = self.change("sub", self.word(slot, _UNFINISHED), 1, "acq_rel")
        self.leave(self(f"icmp ne i64 {before}, 1"), "i32 1")
        self.branch(self(f"icmp ne ptr {combine}, null"),
                    lambda: self.line(f"call void {combine}(ptr {parameters}, i64 {blocks})"))
        self.branch(timed, lambda: self.put(times, 1, f"i64 {self.call('i64', 'now', 'ptr %pool')}"))
        completed_at = self.word("%pool", COMPLETED)
        self.share("%n", completed_at, "seq_cst")
        self.wake(_WAITING, completed_at)
        self.end("i32 1")

    def write_spin(self) -> None:
        """Look at a word until it differs from a value; 0 if it never did."""
        self.function("internal i32 @spin(ptr %word, i64 %value)")

        def look(_: str, __: list[str]) -> None:
            self.leave(self(f"icmp ne i64 {self.shared('%word')}, %value"), "i32 1")
            self.line(self.pause)

        self.repeat(0, _SPINS, 1, [], look)
        self.end("i32 0")

    def spin(self, word: str, value: str) -> str:
        """Whether a word has changed soon."""
        return self(f"icmp ne i32 {self.call('i32', 'spin', f'ptr {word}', f'i64 {value}')}, 0")

    def write_sleep(self) -> None:
        """Sleep while a word has a value, counted among the sleepers, so that who changes the word knows to wake."""
        self.function("internal void @sleep(ptr %pool, ptr %word, i64 %value, ptr %sleepers, ptr %timeout)")
        self.change("add", "%sleepers", 1)
        same = self(f"icmp eq i64 {self.shared('%word', 'seq_cst')}, %value")
        self.branch(same, lambda: self.run("futex_wait", "ptr %pool", "ptr %word", "i64 %value", "ptr %timeout"))
        self.change("sub", "%sleepers", 1)
        self.end()

    def sleep(self, word: str, value: str, sleepers: str, timeout: str = "null") -> None:
        """Sleep while a word has a value."""
        self.run("sleep", "ptr %pool", f"ptr {word}", f"i64 {value}", f"ptr {sleepers}", f"ptr {timeout}")

    def write_take(self) -> None:
        """``run_block``, for number 0 under the claim that it is taken once: kernels have tables by number."""
        self.function("internal i32 @take(ptr %pool, i64 %n, i32 %worker)")

        def run_block(number: str) -> str:
            return self.call("i32", "run_block", "ptr %pool", "i64 %n", f"i32 {number}")

        claim = self.label("claim")
        self.only_if(self("icmp ne i32 %worker, 0"), claim)
        self.line(f"ret i32 {run_block('%worker')}")
        self.open(claim)
        helper_at = self.word("%pool", _HELPER)
        _, alone = self.exchange(helper_at, 0, 1, "acquire monotonic")
        self.leave(self(f"xor i1 {alone}, true"), "i32 0")
        ran = run_block("0")
        self.share(0, helper_at, "release")
        self.end(f"i32 {ran}")

    def take(self, launch: str, worker: str) -> str:
        """Whether a thread has run a block of a launch."""
        return self(f"icmp ne i32 {self.call('i32', 'take', 'ptr %pool', f'i64 {launch}', f'i32 {worker}')}, 0")

    # --- threads, and what the host does -----------------------------------------------------------------------------

    def write_worker(self) -> None:
        """A thread: runs blocks up to the launch that a word names, which is ``submitted`` for workers.

        The argument: the pool, the thread's number, that word, the word that counts its sleepers.
        """
        self.function("ptr @pool_worker(ptr %argument)")
        self.line("%pool = load ptr, ptr %argument")
        index = self.get("%argument", 1, "i32")
        wanted_at, idle_at = self.get("%argument", 2, "ptr"), self.get("%argument", 3, "ptr")
        completed_at, waiting_at, stop_at = (self.word("%pool", word) for word in (COMPLETED, _WAITING, _STOP))
        stands_in, done = self(f"icmp eq i32 {index}, 0"), self.label("done")

        def look(again: str) -> None:
            wanted = self.shared(wanted_at)
            self.only_if(self(f"icmp eq i64 {self.shared(stop_at)}, 0"), done)
            completed, idle = self.shared(completed_at), self.label("idle")
            self.only_if(self(f"icmp ult i64 {completed}, {wanted}"), idle)
            others = self.label("others")
            self.fork(self.take(self.add(completed, 1), index), again, others)
            self.open(others)  # all blocks are taken: wait until the others are done with theirs
            doze = self.label("doze")
            self.fork(self.spin(completed_at, completed), again, doze)
            self.open(doze)
            self.sleep(completed_at, completed, waiting_at)
            self.go(again)
            self.open(idle)  # the stand-in does not look for work on a processor where others could do some
            listen, sleep = self.label("listen"), self.label("sleep")
            self.fork(stands_in, sleep, listen)
            self.open(listen)
            self.fork(self.spin(wanted_at, wanted), again, sleep)
            self.open(sleep)
            self.sleep(wanted_at, wanted, idle_at)

        self.forever(look)
        self.open(done)
        self.end("ptr null")

    def write_submit(self) -> None:
        """Put a launch into its slot."""
        self.function("void @pool_submit(ptr %pool, i64 %n, ptr %kernel, ptr %combine, ptr %parameters, i64 %width, "
                      "i64 %blocks, i64 %size, ptr %times, i64 %unattended)")
        slot, ticket = self.slot("%n"), self("shl i64 %n, 32")
        self.share(self(f"or i64 {ticket}, 4294967295"), slot, "monotonic")  # closed
        self.line("fence release")
        for word, value in ((_KERNEL, "ptr %kernel"), (_COMBINE, "ptr %combine"), (_PARAMETERS, "ptr %parameters"),
                            (_WIDTH, "i64 %width"), (_SIZE, "i64 %size"), (_UNFINISHED, "i64 %blocks"),
                            (_TIMES, "ptr %times")):
            self.put(slot, word, value)
        self.share("%blocks", self.word(slot, _BLOCKS), "monotonic")
        self.share("%unattended", self.word(slot, _UNATTENDED), "monotonic")
        self.share(ticket, slot, "release")
        self.share("%n", "%pool", "seq_cst")
        self.wake(IDLE, "%pool")
        self.end()

    def write_wait(self) -> None:
        """Wait until launch n is completed (1), or some nanoseconds have passed (0): help, or let the stand-in help."""
        self.function("i32 @pool_wait(ptr %pool, i64 %n, i64 %nanoseconds)")
        completed_at, waiting_at, asked_at = (self.word("%pool", word) for word in (COMPLETED, _WAITING, ASKED))
        timeout = self("alloca [2 x i64]")
        self.put(timeout, 0, "i64 0")
        self.put(timeout, 1, "i64 %nanoseconds")
        deadline = self.add(self.call("i64", "now", "ptr %pool"), "%nanoseconds")
        late = self.label("late")

        def ask() -> None:
            asked = self.change("umax", asked_at, "%n")
            self.branch(self(f"icmp ult i64 {asked}, %n"), lambda: self.wake(ASIDE, asked_at))

        def are_several(slot: str) -> list[str]:
            """Whether blocks are left but for one, which goes to a worker, that most likely is awake."""
            block = self.and_(self.shared(slot), 4294967295)
            blocks = self.shared(self.word(slot, _BLOCKS), "monotonic")
            return [self(f"icmp sgt i64 {self.sub(blocks, block)}, 1")]

        def look(again: str) -> None:
            completed = self.shared(completed_at)
            self.leave(self(f"icmp uge i64 {completed}, %n"), "i32 1")
            following = self.add(completed, 1)
            slot = self.slot(following)
            attended = self(f"icmp eq i64 {self.shared(self.word(slot, _UNATTENDED))}, 0")
            goes_on, = self.branch(attended, lambda: [self.take(following, "0")], lambda: are_several(slot), ["i1"])
            waits, spins = self.label("waits"), self.label("spins")
            self.fork(goes_on, waits, spins)
            self.open(spins)
            self.fork(self.spin(completed_at, completed), again, waits)
            self.open(waits)

            def sleep() -> None:
                self.branch(attended, lambda: None, ask)
                self.sleep(completed_at, completed, waiting_at, timeout)

            self.branch(self(f"and i1 {attended}, {goes_on}"), lambda: None, sleep)  # not who has helped
            self.only_if(self(f"icmp ult i64 {self.call('i64', 'now', 'ptr %pool')}, {deadline}"), late)

        self.forever(look)
        self.open(late)
        completed = self(f"icmp uge i64 {self.shared(completed_at)}, %n")
        self.end(f"i32 {self(f'zext i1 {completed} to i32')}")

    def write_stop(self) -> None:
        """Tell the threads to leave; the queue must be empty.

        The futex words change, lest one falls asleep just now.
        """
        self.function("void @pool_stop(ptr %pool)")
        self.share(1, self.word("%pool", _STOP), "seq_cst")
        for word in (SUBMITTED, COMPLETED, ASKED):
            at = self.word("%pool", word)
            self.change("add", at, 1)
            self.run("futex_wake", "ptr %pool", f"ptr {at}")
        self.end()
