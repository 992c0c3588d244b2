"""The collector that replays a model, and answers in MLIA's standardized output."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import mlia
from mlia.core import output_schema as schema
from mlia.core.common import AdviceCategory
from mlia.core.data_collection import ContextAwareDataCollector
from msgspec import Struct

import npu_testbed
from npu_testbed_mlia import NAME
from npu_testbed_mlia.refusal import RefusedError
from npu_testbed_mlia.results import compatibility, performance


class Task(Struct, frozen=True):
    """The model to replay, and on what."""

    model: Path
    profile_name: str
    description: str
    device: dict[str, str]
    options: dict[str, Any]


class Answer(Struct, frozen=True):
    """A data item: MLIA's workflow takes its ``standardized_output`` as it is."""

    standardized_output: dict[str, Any]


def replayed(task: Task, *, advice: bool) -> Any:
    """Replay Vela's schedule of the model or the cascader's: an outcome of ``npu_testbed``. RefusedError with its sentence."""
    options = {key: value for key, value in task.options.items() if key != "scheduler"}
    asked: dict[str, Any] = {**task.device, **options}
    told: dict[str, Any] = {"show_cpu_operations": True, "no_advice": not advice}
    try:
        if task.options.get("scheduler", "vela") == "vela":
            return npu_testbed.simulate_vela(task.model, **asked, **told)
        made = npu_testbed.schedule(task.model, **asked, no_advice=True)
        return npu_testbed.simulate_schedule(made, **told)
    except npu_testbed.Error as error:
        raise RefusedError(str(error)) from error


class ReplayCollector(ContextAwareDataCollector):  # type: ignore[misc]  # the package has no types
    """Collects the one answer: performance, compatibility or both, as the advice that is asked for."""

    def __init__(self, task: Task, categories: Collection[Any]) -> None:
        self._task = task
        self._categories = categories

    @classmethod
    def name(cls) -> str:
        """Name in MLIA's parameters."""
        return "npu_testbed_replay"

    def collect_data(self) -> Answer:
        """Replay the model and say what was found."""
        wants_performance = AdviceCategory.PERFORMANCE in self._categories
        outcome = replayed(self._task, advice=wants_performance)
        document = outcome.to_dict()
        results = [compatibility(document)] if AdviceCategory.COMPATIBILITY in self._categories else []
        results += [performance(document)] if wants_performance else []
        return Answer(standardized_output(self._task, document, results))


def standardized_output(task: Task, document: dict[str, Any], results: list[Any]) -> dict[str, Any]:
    """Wrap results into the document that MLIA prints and writes. ``document`` is the replay's own."""
    data = task.model.read_bytes()
    accelerator = document["accelerator"]
    memory = {key: document["memory_system"][key] for key in ("name", "sha256", "clock_hz")}
    output = schema.StandardizedOutput(
        schema_version=schema.SCHEMA_VERSION,
        run_id=schema.StandardizedOutput.create_run_id(),
        timestamp=schema.StandardizedOutput.create_timestamp(),
        tool=schema.Tool("mlia", mlia.__version__),
        target=schema.Target(
            profile_name=task.profile_name,
            target_type="npu",
            components=[schema.Component(schema.ComponentType.NPU, "ethos-u", variant=accelerator)],
            configuration={"accelerator_config": accelerator, "memory_system": memory["name"], "clock_hz": memory["clock_hz"]},
            description=task.description or None,
        ),
        model=schema.Model(
            task.model.name, task.model.suffix.lstrip(".").lower() or "unknown", hashlib.sha256(data).hexdigest(), len(data)
        ),
        context=schema.Context(cli_arguments=list(sys.argv[1:])),
        backends=[
            schema.Backend(
                id=NAME,
                name="NPU testbed",
                version=npu_testbed.VERSION,
                configuration={"scheduler": document["planner"], "memory_system": memory, "tools": document["tools"], **task.options},
            )
        ],
        results=results,
    )
    wrapped: dict[str, Any] = output.to_dict()
    return wrapped
