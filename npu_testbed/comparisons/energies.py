"""The ratio of energies, ours to Vela's, of each answer of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_testbed.comparisons.answer import BestAnswer
from npu_testbed.documents.comparison import EnergyRatios
from npu_testbed.energy import Energy, EnergyTable, energy, energy_ratio
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.replays.vela_runs import VelaRun, VelaTask, vela_network
from sim import counted_network


def our_energy(schedule: Schedule, task: VelaTask, table: EnergyTable) -> Energy:
    """The energy of a schedule on the memories and with the timing of a task."""
    return energy(counted_network(lower(schedule), task.system, task.timing), table)


def vela_energy(run: VelaRun, task: VelaTask, table: EnergyTable) -> Energy:
    """The energy of one compilation of Vela's."""
    network = vela_network(task, run)
    return energy(counted_network(network, task.replayed_on(network), task.timing), table)


def energy_ratios(
    answers: Sequence[BestAnswer], task: VelaTask, table: EnergyTable, executor: Executor, show: Progress = silent
) -> EnergyRatios:
    """The ratio of each answer. InputError if the table lacks a memory or makes Vela's energy 0."""
    show(f"Weighing {len(answers)} answers by the energy table {table.name}")
    schedules = {answer.ours.digest: answer.ours.schedule for answer in answers if answer.ours is not None}
    ours = {name: executor.submit(our_energy, schedule, task, table) for name, schedule in schedules.items()}
    vela = {run: executor.submit(vela_energy, run, task, table) for run in dict.fromkeys(answer.vela.run for answer in answers)}
    return EnergyRatios(
        table.name,
        tuple(
            None if answer.ours is None else energy_ratio(ours[answer.ours.digest].result(), vela[answer.vela.run].result())
            for answer in answers
        ),
    )
