"""Results of MLIA from the document that a replay of npu-testbed gives."""

from __future__ import annotations

from typing import Any

from mlia.core import output_schema as schema

from npu_testbed_mlia import NAME

LAYER = "npu_layer"
"""The kind of entity that a layer of the replay is: operators that Vela fused are one."""

NPU_ONLY = "Cycles and times are those of the NPU alone: operators on the CPU and copies by the CPU are not in them."


def entities(document: dict[str, Any]) -> list[Any]:
    """Name the layers of the NPU, then the operators on the CPU."""
    layers = [
        schema.Entity(
            f"{LAYER}/{number}",
            LAYER,
            row["layer"],
            schema.PlacementType.NPU.value,
            attributes={"operator": row["operator"], "bound_by": row["binding"]},
        )
        for number, row in enumerate(document["layers"])
    ]
    on_cpu = [
        schema.Entity(f"cpu_operator/{number}", "cpu_operator", _cpu_name(one), schema.PlacementType.CPU.value)
        for number, one in enumerate(document["cpu_operations"])
    ]
    return layers + on_cpu


def _cpu_name(operator: dict[str, Any]) -> str:
    return " ".join([operator["operator"], *operator["outputs"][:1]])


def _kinds(document: dict[str, Any]) -> list[Any]:
    return [schema.EntityKind(LAYER), *([schema.EntityKind("cpu_operator")] if document["cpu_operations"] else [])]


def _on_npu(document: dict[str, Any]) -> list[Any]:
    # How many operators of the model a layer of the NPU stands for is not recorded: only "all of them" is a percentage.
    return (
        [] if document["cpu_operations"] else [schema.Metric(schema.METRIC_NAME_ACCELERATOR_OPERATOR_PERCENTAGE, 100, schema.UNIT_PERCENT)]
    )


def performance(document: dict[str, Any]) -> Any:
    """Say cycles, time, memory and traffic of the replay, those of every layer, and what would make it better."""
    summary = document["summary"]
    milliseconds = summary["milliseconds"]
    metrics = [
        *_on_npu(document),
        schema.Metric("npu_total_cycles", summary["cycles"], "cycles"),
        schema.Metric(schema.METRIC_NAME_INFERENCE_TIME, round(milliseconds, 6), schema.UNIT_MILLISECONDS),
        *(
            [schema.Metric(schema.METRIC_NAME_INFERENCES_PER_SECOND, round(1000 / milliseconds, 3), schema.UNIT_INFERENCES_PER_SECOND)]
            if milliseconds
            else []
        ),
        schema.Metric(schema.METRIC_NAME_TARGET_UTILIZATION, round(100 * summary["mac_utilisation"], 3), schema.UNIT_PERCENT),
        schema.Metric(schema.METRIC_NAME_MODEL_WEIGHT_MEMORY, summary["constant_bytes"], schema.UNIT_BYTES),
        schema.Metric(schema.METRIC_NAME_PEAK_ACTIVATION_MEMORY, summary["peak_bytes"], schema.UNIT_BYTES),
        schema.Metric("arena_bytes", summary["planned_bytes"], schema.UNIT_BYTES),
        *(schema.Metric(f"npu_{port}_data_beats", beats, "beats") for port, beats in summary["beats"].items()),
    ]
    return schema.Result(
        kind=schema.ResultKind.PERFORMANCE,
        status=schema.ResultStatus.OK,
        producer=NAME,
        mode=schema.ModeType.SIMULATED,
        warnings=[NPU_ONLY],
        metrics=schema.ensure_standard_performance_metrics(metrics),
        entities=entities(document),
        entity_kinds=_kinds(document),
        breakdowns=[_breakdown(number, row) for number, row in enumerate(document["layers"])],
        advice=[_advice(number, one) for number, one in enumerate(document.get("findings") or [])],
    )


def _breakdown(number: int, row: dict[str, Any]) -> Any:
    traffic = [schema.Metric(name, row[name], schema.UNIT_BYTES) for name in ("axi0_read_bytes", "axi0_write_bytes", "axi1_read_bytes")]
    used = schema.Metric(schema.METRIC_NAME_TARGET_UTILIZATION, round(100 * row["mac_utilisation"], 3), schema.UNIT_PERCENT)
    return schema.Breakdown(f"{LAYER}/{number}", [schema.Metric("npu_cycles", row["cycles"], "cycles"), used, *traffic])


def _advice(number: int, finding: dict[str, Any]) -> Any:
    return schema.Advice(
        f"{NAME}-{number}",
        schema.AdviceCategory.PERFORMANCE,
        schema.AdviceSeverity.INFO,
        finding["text"],
        details={key: finding[key] for key in ("kind", "changed", "saved_cycles", "saved_bytes")},
    )


def compatibility(document: dict[str, Any]) -> Any:
    """Say which operators stay on the CPU: for each the value that Vela found, the bound, and what to change."""
    checks = [
        schema.Check(
            f"npu_placement/{number}",
            schema.CheckStatus.FAIL,
            f"cpu_operator/{number}",
            {key: one[key] for key in ("reason", "bound", "remedy") if one[key]},
        )
        for number, one in enumerate(document["cpu_operations"])
    ]
    on_npu = _on_npu(document) or [
        schema.Metric(
            schema.METRIC_NAME_ACCELERATOR_OPERATOR_PERCENTAGE,
            None,
            schema.UNIT_PERCENT,
            availability=schema.MetricAvailability.UNAVAILABLE,
            reason="Operators of the model that are fused on the NPU are not counted one by one.",
        )
    ]
    return schema.Result(
        kind=schema.ResultKind.COMPATIBILITY,
        status=schema.ResultStatus.PARTIAL if checks else schema.ResultStatus.OK,
        producer=NAME,
        metrics=on_npu,
        checks=checks or [schema.Check("npu_placement", schema.CheckStatus.PASS)],
        entities=entities(document),
        entity_kinds=_kinds(document),
    )
