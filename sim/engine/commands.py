"""The front of the NPU: command fetch, command processor and DMA."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import Any

import simpy

from npu_model.cost.timed import copied_words
from npu_model.cost.traversal import reduces_depth
from npu_model.program import WORD_BYTES, DmaOperation, DmaWait, KernelOperation, KernelWait
from npu_model.shapes import ceil_div
from npu_model.timing import DMA_CHUNK_BEATS
from sim.engine.machine import KernelRun, Machine
from sim.engine.terms import DMA_CHUNKS_AHEAD, Channel, Times, command_buffer_words, fetch_words
from sim.engine.threshold import Threshold
from sim.events import Cause, Unit

Process = Generator[simpy.Event, Any, None]


def command_fetch(machine: Machine) -> Process:
    """Fetch the command stream in order, as far ahead as the buffer allows."""
    total, word = sum(machine.program.words), machine.accelerator.port_bytes_per_cycle
    most, buffer, requested = fetch_words(machine.accelerator), command_buffer_words(machine.accelerator), 0
    while requested < total:
        yield machine.parsed.reach(requested + most - buffer)
        words = min(most, total - requested)
        # A beat is charged at the request for its first word, so an odd word at the end costs a whole beat.
        beats = ceil_div((requested + words) * WORD_BYTES, word) - ceil_div(requested * WORD_BYTES, word)
        yield machine.ports.fetch_commands((beats,))
        machine.fetched.advance(words)
        requested += words


def _parse(machine: Machine, operation: int, words: int) -> Process:
    """Take the next words of the stream, by default one a cycle."""
    env, parsed, pace = machine.env, machine.parsed, machine.timing.command_cycles_per_word
    end, most = parsed.count + words, fetch_words(machine.accelerator)
    while parsed.count < end:
        step = min(most, end - parsed.count)
        yield from machine.recorder.wait(Unit.CC, Cause.COMMANDS, machine.fetched.reach(parsed.count + step), operation)
        yield from machine.recorder.work(Unit.CC, env.timeout(step * pace), operation)
        parsed.advance(step)


def command_processor(machine: Machine) -> Process:
    """Parse the stream and issue its operations to the kernel and DMA queues; ends when all of them are finished."""
    accelerator, recorder = machine.accelerator, machine.recorder
    kernels = dmas = 0
    previous: KernelRun | None = None
    for index, (op, words) in enumerate(zip(machine.program.operations, machine.program.words, strict=True)):
        yield from _parse(machine, index, words)
        if isinstance(op, KernelOperation):
            slot = machine.kernels_done.reach(kernels + 1 - accelerator.max_outstanding_kernels)
            yield from recorder.wait(Unit.CC, Cause.KERNEL_QUEUE, slot, index)
            pace = accelerator.ifm_cycles_per_word(own_channels=not reduces_depth(op))
            previous = KernelRun(index, op, machine.jobs[index], previous, Threshold(machine.env), machine.env.cycle, pace)
            machine.kernel_queue.put(previous)
            kernels += 1
        elif isinstance(op, DmaOperation):
            slot = machine.dmas_done.reach(dmas + 1 - accelerator.max_outstanding_dma)
            yield from recorder.wait(Unit.CC, Cause.DMA_QUEUE, slot, index)
            machine.dma_queue.put((index, op, machine.env.cycle))
            dmas += 1
        elif isinstance(op, KernelWait):
            yield from recorder.wait(Unit.CC, Cause.KERNEL_WAIT, machine.kernels_done.reach(kernels - op.outstanding), index)
        elif isinstance(op, DmaWait):
            yield from recorder.wait(Unit.CC, Cause.DMA_WAIT, machine.dmas_done.reach(dmas - op.outstanding), index)
    last = len(machine.program.operations) - 1
    yield from recorder.wait(Unit.CC, Cause.DRAIN, machine.kernels_done.reach(kernels), last)
    yield from recorder.wait(Unit.CC, Cause.DRAIN, machine.dmas_done.reach(dmas), last)


def copy_chunks(op: DmaOperation, word: int, *, aligned: bool) -> list[tuple[int, int, int]]:
    """The chunks of a transfer: word addresses of source and destination (for alignment) and beats.

    If transactions are aligned, chunks end at multiples of their length in the source.
    """
    source, target = (op.source.start // word, op.destination // word) if aligned else (0, 0)
    total = copied_words(op, word)
    starts = (0, *range(DMA_CHUNK_BEATS - source % DMA_CHUNK_BEATS, total, DMA_CHUNK_BEATS), total)
    return [(source + start, target + start, end - start) for start, end in pairwise(starts)] if total else []


def _copy(machine: Machine, op: DmaOperation) -> Process:
    """Read the source chunk by chunk and write each chunk; end with the last response."""
    ports = machine.ports
    response = 0 if op.to_shram else ports.response(op.destination_region)
    chunks = copy_chunks(op, machine.accelerator.port_bytes_per_cycle, aligned=machine.timing.aligned_bursts)
    reads: list[simpy.Event] = []
    written: simpy.Event = machine.env.timeout(0)
    for i, (_, target, beats) in enumerate(chunks):
        while len(reads) < min(len(chunks), i + DMA_CHUNKS_AHEAD):
            source, _, asked = chunks[len(reads)]
            reads.append(ports.read(op.source.region, Channel.MEM2MEM, (asked,), source))
        yield reads[i]
        if not op.to_shram:
            written = ports.write(op.destination_region, Channel.MEM2MEM, (beats,), target)
    yield written
    if chunks and response:
        yield machine.env.timeout(response)


def dma(machine: Machine) -> Process:
    """Run the transfers in order, one at a time."""
    while True:
        index, op, issued = yield machine.dma_queue.get()
        start = machine.env.cycle
        yield from _copy(machine, op)
        machine.recorder.was_busy(Unit.DMA, start, index)
        machine.times[index] = Times(issued, machine.env.cycle)
        machine.dmas_done.advance()
