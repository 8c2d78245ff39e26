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

__all__ = ["ASIDE", "ASKED", "CLOCK", "COMPLETED", "EXPORTS", "IDLE", "SLOTS", "SUBMITTED", "SYSCALL", "WORDS",
           "is_supported", "pool_text"]

SLOTS = 1024
WORDS = 64 + 16 * SLOTS
#: Words of the pool's memory: counters, and how many sleep on them.
SUBMITTED, COMPLETED, IDLE, _WAITING, _STOP, _HELPER, ASKED, ASIDE = 0, 8, 16, 24, 32, 48, 56, 57
#: Words that hold addresses of the system's functions.
SYSCALL, CLOCK = 40, 41
EXPORTS = ("pool_worker", "pool_submit", "pool_wait", "pool_stop")

#: How often a thread looks again before it sleeps: some 40 us.  Waking a thread takes 30 us and more, as long as Python
#: needs for the next launch: in a loop of launches of 256k elements, looking for 5 us makes an iteration take 71 us
#: instead of 52.
_SPINS = 1000

_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_STORE_FENCE = {"x86_64": "call void @llvm.x86.sse.sfence()", "aarch64": "fence seq_cst"}
_FUTEX = {"x86_64": 202, "aarch64": 98}


def is_supported(machine: str) -> bool:
    """Whether there is a pool for a machine (as ``platform.machine()`` names it)."""
    return machine in _FUTEX


def _field(name: str, base: str, word: int) -> str:
    return f"{name} = getelementptr inbounds i64, ptr {base}, i64 {word}"


def pool_text(machine: str) -> str:
    """The module's text for a machine."""
    pause, futex = _PAUSE[machine], _FUTEX[machine]
    # FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129
    return f"""
define internal void @futex_wait(ptr %pool, ptr %word, i64 %value, ptr %timeout) #0 {{
  {_field("%syscall_at", "%pool", SYSCALL)}
  %syscall = load ptr, ptr %syscall_at
  %low = trunc i64 %value to i32
  %result = call i64 (i64, ...) %syscall(i64 {futex}, ptr %word, i32 128, i32 %low, ptr %timeout, ptr null, i32 0)
  ret void
}}

define internal void @futex_wake(ptr %pool, ptr %word) #0 {{
  {_field("%syscall_at", "%pool", SYSCALL)}
  %syscall = load ptr, ptr %syscall_at
  %result = call i64 (i64, ...) %syscall(i64 {futex}, ptr %word, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}}

; nanoseconds of the monotonic clock
define internal i64 @now(ptr %pool) #0 {{
  %time = alloca [2 x i64]
  {_field("%clock_at", "%pool", CLOCK)}
  %clock = load ptr, ptr %clock_at
  %result = call i32 %clock(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %fraction_at = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %fraction
  ret i64 %sum
}}

; take and run one block of launch n; 0 if there is none left to take
define internal i32 @run_block(ptr %pool, i64 %n, i32 %worker) #0 {{
entry:
  %place = and i64 %n, {SLOTS - 1}
  %offset_0 = shl i64 %place, 4
  %offset = add i64 %offset_0, 64
  %slot = getelementptr inbounds i64, ptr %pool, i64 %offset
  %generation = shl i64 %n, 32
  {_field("%blocks_at", "%slot", 5)}
  %first = load atomic i64, ptr %slot acquire, align 8
  br label %attempt
attempt:
  %ticket = phi i64 [ %first, %entry ], [ %found, %exchange ]
  %upper = and i64 %ticket, -4294967296
  %current = icmp eq i64 %upper, %generation
  %block = and i64 %ticket, 4294967295
  %blocks = load atomic i64, ptr %blocks_at acquire, align 8
  %left = icmp ult i64 %block, %blocks
  %free = and i1 %current, %left
  br i1 %free, label %exchange, label %none
exchange:
  %next = add i64 %ticket, 1
  %pair = cmpxchg ptr %slot, i64 %ticket, i64 %next acq_rel acquire, align 8
  %found = extractvalue {{ i64, i1 }} %pair, 0
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %run, label %attempt
run:
  {_field("%kernel_at", "%slot", 1)}
  {_field("%combine_at", "%slot", 2)}
  {_field("%parameters_at", "%slot", 3)}
  {_field("%width_at", "%slot", 4)}
  {_field("%size_at", "%slot", 6)}
  {_field("%unfinished", "%slot", 7)}
  {_field("%times_at", "%slot", 8)}
  %kernel = load ptr, ptr %kernel_at
  %combine = load ptr, ptr %combine_at
  %parameters = load ptr, ptr %parameters_at
  %width = load i64, ptr %width_at
  %size = load i64, ptr %size_at
  %times = load ptr, ptr %times_at
  %untimed = icmp eq ptr %times, null
  %is_first = icmp eq i64 %block, 0
  %timed = xor i1 %untimed, true
  %start_clock = and i1 %timed, %is_first
  br i1 %start_clock, label %start, label %work
start:
  %started = call i64 @now(ptr %pool)
  store i64 %started, ptr %times
  br label %work
work:
  %begin = mul i64 %block, %size
  %end_0 = add i64 %begin, %size
  %end = call i64 @llvm.umin.i64(i64 %end_0, i64 %width)
  call void %kernel(ptr %parameters, i64 0, i64 1, i64 %begin, i64 %end, i64 %block, i32 %worker)
  {_STORE_FENCE[machine]}
  %before = atomicrmw sub ptr %unfinished, i64 1 acq_rel, align 8
  %was_last = icmp eq i64 %before, 1
  br i1 %was_last, label %finish, label %done
finish:
  %no_combine = icmp eq ptr %combine, null
  br i1 %no_combine, label %stop_clock, label %combining
combining:
  call void %combine(ptr %parameters, i64 %blocks)
  br label %stop_clock
stop_clock:
  br i1 %untimed, label %publish, label %stopping
stopping:
  %stopped = call i64 @now(ptr %pool)
  {_field("%stopped_at", "%times", 1)}
  store i64 %stopped, ptr %stopped_at
  br label %publish
publish:
  {_field("%completed_at", "%pool", COMPLETED)}
  store atomic i64 %n, ptr %completed_at seq_cst, align 8
  {_field("%waiting_at", "%pool", _WAITING)}
  %waiting = load atomic i64, ptr %waiting_at seq_cst, align 8
  %someone = icmp ne i64 %waiting, 0
  br i1 %someone, label %wake, label %done
wake:
  call void @futex_wake(ptr %pool, ptr %completed_at)
  br label %done
done:
  ret i32 1
none:
  ret i32 0
}}

; look at a word until it differs from a value; 0 if it never did
define internal i32 @spin(ptr %word, i64 %value) #0 {{
entry:
  br label %look
look:
  %count = phi i32 [ 0, %entry ], [ %count_next, %again ]
  %now = load atomic i64, ptr %word acquire, align 8
  %changed = icmp ne i64 %now, %value
  br i1 %changed, label %yes, label %again
again:
  {pause}
  %count_next = add i32 %count, 1
  %more = icmp ult i32 %count_next, {_SPINS}
  br i1 %more, label %look, label %no
yes:
  ret i32 1
no:
  ret i32 0
}}

; sleep while a word has a value, counted among the sleepers, so that who changes the word knows to wake
define internal void @sleep(ptr %pool, ptr %word, i64 %value, ptr %sleepers, ptr %timeout) #0 {{
entry:
  %old = atomicrmw add ptr %sleepers, i64 1 seq_cst, align 8
  %now = load atomic i64, ptr %word seq_cst, align 8
  %same = icmp eq i64 %now, %value
  br i1 %same, label %wait, label %done
wait:
  call void @futex_wait(ptr %pool, ptr %word, i64 %value, ptr %timeout)
  br label %done
done:
  %older = atomicrmw sub ptr %sleepers, i64 1 seq_cst, align 8
  ret void
}}

; run_block, for number 0 under the claim that it is taken once: kernels have tables by number
define internal i32 @take(ptr %pool, i64 %n, i32 %worker) #0 {{
entry:
  {_field("%helper_at", "%pool", _HELPER)}
  %is_worker = icmp ne i32 %worker, 0
  br i1 %is_worker, label %run, label %claim
run:
  %ran = call i32 @run_block(ptr %pool, i64 %n, i32 %worker)
  ret i32 %ran
claim:
  %claimed = cmpxchg ptr %helper_at, i64 0, i64 1 acquire monotonic, align 8
  %alone = extractvalue {{ i64, i1 }} %claimed, 1
  br i1 %alone, label %help, label %busy
help:
  %helped = call i32 @run_block(ptr %pool, i64 %n, i32 0)
  store atomic i64 0, ptr %helper_at release, align 8
  ret i32 %helped
busy:
  ret i32 0
}}

; a thread: runs blocks up to the launch that a word names, which is ``submitted`` for workers.  The argument: the pool,
; the thread's number, that word, the word that counts its sleepers.
define ptr @pool_worker(ptr %argument) #0 {{
entry:
  %pool = load ptr, ptr %argument
  {_field("%index_at", "%argument", 1)}
  {_field("%wanted_at_at", "%argument", 2)}
  {_field("%idle_at_at", "%argument", 3)}
  %index = load i32, ptr %index_at
  %wanted_at = load ptr, ptr %wanted_at_at
  %idle_at = load ptr, ptr %idle_at_at
  {_field("%completed_at", "%pool", COMPLETED)}
  {_field("%waiting_at", "%pool", _WAITING)}
  {_field("%stop_at", "%pool", _STOP)}
  %stands_in = icmp eq i32 %index, 0
  br label %look
look:
  %wanted = load atomic i64, ptr %wanted_at acquire, align 8
  %stop = load atomic i64, ptr %stop_at acquire, align 8
  %stopping = icmp ne i64 %stop, 0
  br i1 %stopping, label %leave, label %running
running:
  %completed = load atomic i64, ptr %completed_at acquire, align 8
  %work = icmp ult i64 %completed, %wanted
  br i1 %work, label %take, label %idle
take:
  %n = add i64 %completed, 1
  %ran = call i32 @take(ptr %pool, i64 %n, i32 %index)
  %took = icmp ne i32 %ran, 0
  br i1 %took, label %look, label %others
others:  ; all blocks are taken: wait until the others are done with theirs
  %seen = call i32 @spin(ptr %completed_at, i64 %completed)
  %advanced = icmp ne i32 %seen, 0
  br i1 %advanced, label %look, label %doze
doze:
  call void @sleep(ptr %pool, ptr %completed_at, i64 %completed, ptr %waiting_at, ptr null)
  br label %look
idle:  ; the stand-in does not look for work on a processor where others could do some
  br i1 %stands_in, label %sleep, label %listen
listen:
  %heard = call i32 @spin(ptr %wanted_at, i64 %wanted)
  %arrived = icmp ne i32 %heard, 0
  br i1 %arrived, label %look, label %sleep
sleep:
  call void @sleep(ptr %pool, ptr %wanted_at, i64 %wanted, ptr %idle_at, ptr null)
  br label %look
leave:
  ret ptr null
}}

define void @pool_submit(ptr %pool, i64 %n, ptr %kernel, ptr %combine, ptr %parameters, i64 %width, i64 %blocks,
                         i64 %size, ptr %times, i64 %unattended) #0 {{
entry:
  %place = and i64 %n, {SLOTS - 1}
  %offset_0 = shl i64 %place, 4
  %offset = add i64 %offset_0, 64
  %slot = getelementptr inbounds i64, ptr %pool, i64 %offset
  {_field("%kernel_at", "%slot", 1)}
  {_field("%combine_at", "%slot", 2)}
  {_field("%parameters_at", "%slot", 3)}
  {_field("%width_at", "%slot", 4)}
  {_field("%blocks_at", "%slot", 5)}
  {_field("%size_at", "%slot", 6)}
  {_field("%unfinished", "%slot", 7)}
  {_field("%times_at", "%slot", 8)}
  {_field("%unattended_at", "%slot", 9)}
  %closed_0 = shl i64 %n, 32
  %closed = or i64 %closed_0, 4294967295
  store atomic i64 %closed, ptr %slot monotonic, align 8
  fence release
  store ptr %kernel, ptr %kernel_at
  store ptr %combine, ptr %combine_at
  store ptr %parameters, ptr %parameters_at
  store i64 %width, ptr %width_at
  store atomic i64 %blocks, ptr %blocks_at monotonic, align 8
  store i64 %size, ptr %size_at
  store i64 %blocks, ptr %unfinished
  store ptr %times, ptr %times_at
  store atomic i64 %unattended, ptr %unattended_at monotonic, align 8
  store atomic i64 %closed_0, ptr %slot release, align 8
  store atomic i64 %n, ptr %pool seq_cst, align 8
  {_field("%idle_at", "%pool", IDLE)}
  %idle = load atomic i64, ptr %idle_at seq_cst, align 8
  %someone = icmp ne i64 %idle, 0
  br i1 %someone, label %wake, label %done
wake:
  call void @futex_wake(ptr %pool, ptr %pool)
  br label %done
done:
  ret void
}}

; wait until launch n is completed (1), or some nanoseconds have passed (0): help, or have the stand-in help
define i32 @pool_wait(ptr %pool, i64 %n, i64 %nanoseconds) #0 {{
entry:
  {_field("%completed_at", "%pool", COMPLETED)}
  {_field("%waiting_at", "%pool", _WAITING)}
  {_field("%asked_at", "%pool", ASKED)}
  {_field("%aside_at", "%pool", ASIDE)}
  %timeout = alloca [2 x i64]
  store i64 0, ptr %timeout
  {_field("%fraction_at", "%timeout", 1)}
  store i64 %nanoseconds, ptr %fraction_at
  %start = call i64 @now(ptr %pool)
  %deadline = add i64 %start, %nanoseconds
  br label %look
look:
  %completed = load atomic i64, ptr %completed_at acquire, align 8
  %is_done = icmp uge i64 %completed, %n
  br i1 %is_done, label %done, label %choose
choose:
  %next = add i64 %completed, 1
  %place = and i64 %next, {SLOTS - 1}
  %offset_0 = shl i64 %place, 4
  %offset = add i64 %offset_0, 64
  %slot = getelementptr inbounds i64, ptr %pool, i64 %offset
  {_field("%blocks_at", "%slot", 5)}
  {_field("%unattended_at", "%slot", 9)}
  %unattended = load atomic i64, ptr %unattended_at acquire, align 8
  %mine = icmp eq i64 %unattended, 0
  br i1 %mine, label %work, label %others
work:
  %ran = call i32 @take(ptr %pool, i64 %next, i32 0)
  %helped = icmp ne i32 %ran, 0
  br i1 %helped, label %check, label %spinning
others:  ; the last block goes to a worker, which most likely is awake
  %ticket = load atomic i64, ptr %slot acquire, align 8
  %block = and i64 %ticket, 4294967295
  %blocks = load atomic i64, ptr %blocks_at monotonic, align 8
  %left = sub i64 %blocks, %block
  %several = icmp sgt i64 %left, 1
  br i1 %several, label %ask, label %spinning
spinning:
  %seen = call i32 @spin(ptr %completed_at, i64 %completed)
  %advanced = icmp ne i32 %seen, 0
  br i1 %advanced, label %look, label %again
again:
  br i1 %mine, label %sleep, label %ask
ask:
  %asked = atomicrmw umax ptr %asked_at, i64 %n seq_cst, align 8
  %news = icmp ult i64 %asked, %n
  br i1 %news, label %call, label %sleep
call:
  %aside = load atomic i64, ptr %aside_at seq_cst, align 8
  %someone = icmp ne i64 %aside, 0
  br i1 %someone, label %wake, label %sleep
wake:
  call void @futex_wake(ptr %pool, ptr %asked_at)
  br label %sleep
sleep:
  call void @sleep(ptr %pool, ptr %completed_at, i64 %completed, ptr %waiting_at, ptr %timeout)
  br label %check
check:
  %time = call i64 @now(ptr %pool)
  %late = icmp uge i64 %time, %deadline
  br i1 %late, label %late_check, label %look
late_check:
  %final = load atomic i64, ptr %completed_at acquire, align 8
  %finally = icmp uge i64 %final, %n
  br i1 %finally, label %done, label %timeout_over
timeout_over:
  ret i32 0
done:
  ret i32 1
}}

; tell the threads to leave; the queue must be empty.  The futex words change, lest one falls asleep just now.
define void @pool_stop(ptr %pool) #0 {{
  {_field("%stop_at", "%pool", _STOP)}
  {_field("%completed_at", "%pool", COMPLETED)}
  {_field("%asked_at", "%pool", ASKED)}
  store atomic i64 1, ptr %stop_at seq_cst, align 8
  %submitted = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  call void @futex_wake(ptr %pool, ptr %pool)
  %completed = atomicrmw add ptr %completed_at, i64 1 seq_cst, align 8
  call void @futex_wake(ptr %pool, ptr %completed_at)
  %asked = atomicrmw add ptr %asked_at, i64 1 seq_cst, align 8
  call void @futex_wake(ptr %pool, ptr %asked_at)
  ret void
}}

attributes #0 = {{ nounwind "frame-pointer"="none" }}
"""
