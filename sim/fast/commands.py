"""The twin's front: command fetch, command processor and DMA of :mod:`sim.engine.commands`, wait by wait in the same order."""

from __future__ import annotations

from npu_model.program import WORD_BYTES, DmaOperation, DmaWait, KernelOperation, KernelWait
from npu_model.shapes import ceil_div
from sim.engine.terms import COMMAND_BUFFER_WORDS, DMA_CHUNKS_AHEAD, Channel, Times, fetch_words
from sim.fast.clock import Resume, Unit
from sim.fast.machine import Count, KernelRun, Machine


def command_fetch(machine: Machine) -> Unit:
    """Fetch the command stream in order, as far ahead as the buffer goes."""
    me = yield
    port, word = machine.system.command_port, machine.accelerator.port_bytes_per_cycle
    total, most, requested = sum(machine.program.words), fetch_words(machine.accelerator), 0
    while requested < total:
        if machine.parsed.reach(requested + most - COMMAND_BUFFER_WORDS, me):
            yield
        words = min(most, total - requested)
        beats = ceil_div((requested + words) * WORD_BYTES, word) - ceil_div(requested * WORD_BYTES, word)
        machine.ports[port][0].transfer(Channel.COMMANDS, machine.cache.transfer(port, Channel.COMMANDS, (beats,)), me)
        yield
        machine.fetched.advance(words)
        requested += words
    yield


def command_processor(machine: Machine) -> Unit:  # noqa: C901, PLR0912  # one branch per command, as in the engine
    """Parse the stream and issue its operations; ends when all of them are finished."""
    me = yield
    accelerator, agenda, fetched, parsed = machine.accelerator, machine.agenda, machine.fetched, machine.parsed
    kernels = dmas = end = 0
    most = fetch_words(accelerator)
    previous: KernelRun | None = None
    for index, (op, words) in enumerate(zip(machine.program.operations, machine.program.words, strict=True)):
        end += words
        while parsed.value < end:
            step = min(most, end - parsed.value)
            if fetched.reach(parsed.value + step, me):
                yield
            if agenda.later(step * machine.timing.command_cycles_per_word, me):
                yield
            parsed.advance(step)
        if isinstance(op, KernelOperation):
            if machine.kernels_done.reach(kernels + 1 - accelerator.max_outstanding_kernels, me):
                yield
            previous = KernelRun(index, op, machine.flat[index], previous, Count(agenda), agenda.cycle)
            machine.kernel_queue.put(previous)
            kernels += 1
        elif isinstance(op, DmaOperation):
            if machine.dmas_done.reach(dmas + 1 - accelerator.max_outstanding_dma, me):
                yield
            machine.dma_queue.put((index, op, agenda.cycle))
            dmas += 1
        elif isinstance(op, KernelWait):
            if machine.kernels_done.reach(kernels - op.outstanding, me):
                yield
        elif isinstance(op, DmaWait) and machine.dmas_done.reach(dmas - op.outstanding, me):
            yield
    if machine.kernels_done.reach(kernels, me):
        yield
    if machine.dmas_done.reach(dmas, me):
        yield
    machine.end = agenda.cycle
    yield


def _copy(machine: Machine, op: DmaOperation, me: Resume) -> Unit:
    """Read the source chunk by chunk and write each chunk on; ends with the last response.

    Chunks arrive in order, and each is written at once: it is always the next one that the DMA waits for.
    """
    reads, writes = machine.cache.copy(op)
    source = machine.ports[machine.system.port_of(op.source.region)][0]
    target = None if op.to_shram else machine.ports[machine.system.port_of(op.destination_region)][1]
    if not reads and machine.agenda.soon(me):
        yield
    for chunk in reads[:DMA_CHUNKS_AHEAD]:
        source.transfer(Channel.MEM2MEM, chunk, me)
    for i, chunk in enumerate(writes):
        if 0 < i <= len(reads) - DMA_CHUNKS_AHEAD:
            source.transfer(Channel.MEM2MEM, reads[i + DMA_CHUNKS_AHEAD - 1], me)
        yield
        if target is not None:
            # Nobody waits for the responses but the last.
            target.transfer(Channel.MEM2MEM, chunk, me if i == len(writes) - 1 else None)
    if writes and target is not None:
        yield
        if target.response and machine.agenda.later(target.response, me):
            yield


def dma(machine: Machine) -> Unit:
    """Run the transfers in order, one at a time."""
    me = yield
    while True:
        if machine.dma_queue.wait(me):
            yield
        index, op, issued = machine.dma_queue.items.popleft()
        yield from _copy(machine, op, me)
        machine.times[index] = Times(issued, machine.agenda.cycle)
        machine.dmas_done.advance()
