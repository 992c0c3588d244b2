"""The target that the backend answers for: an NPU by its MACs, or a chip by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlia.core.advisor import DefaultInferenceAdvisor
from mlia.plugins.plugins import TargetPlugin
from mlia.target.config import TargetInfo, TargetProfile

from npu_testbed_mlia import NAME
from npu_testbed_mlia.backend import OPTIONS
from npu_testbed_mlia.collector import ReplayCollector, Task
from npu_testbed_mlia.refusal import RefusedError


class NpuTestbedProfile(TargetProfile):  # type: ignore[misc]  # the package has no types
    """A target profile: ``accelerator_config`` or ``chip``, and what ``[backend.npu-testbed]`` says."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields["target"], fields.get("backend_config"))
        self.profile_name = str(fields.get("profile_name", self.target))
        self.description = str(fields.get("description", ""))
        self.device = {key: str(fields[key]) for key in ("accelerator_config", "chip") if key in fields}

    @property
    def options(self) -> dict[str, Any]:
        """Options of the backend, from the profile and the command line."""
        return dict(self.backend_config.get(NAME, {}))

    def verify(self) -> None:
        """Raise RefusedError for a profile that names no device or an unknown option."""
        super().verify()
        if not self.device:
            raise RefusedError(f"Target profile {self.profile_name!r} has neither accelerator_config nor chip: give one of them.")
        if unknown := sorted(self.options.keys() - OPTIONS.keys()):
            raise RefusedError(f"Backend {NAME} has no option {unknown[0]!r}: choose among {', '.join(OPTIONS)}.")


class NpuTestbedAdvisor(DefaultInferenceAdvisor):  # type: ignore[misc]  # the package has no types
    """An advisor of one collector, which replays the model."""

    def __init__(self, task: Task) -> None:
        self._task = task

    @classmethod
    def name(cls) -> str:
        """Name in MLIA's parameters."""
        return "npu_testbed_inference_advisor"

    def get_collectors(self, context: Any) -> list[Any]:
        """Return what makes the answer."""
        return [ReplayCollector(self._task, context.advice_category or set())]

    def get_analyzers(self, _context: Any) -> list[Any]:
        """Return none: the answer is complete."""
        return []

    def get_pattern_analyzers(self, _context: Any) -> list[Any]:
        """Return none: the answer is complete."""
        return []


def make_advisor(_context: Any, target_profile: str | Path, model: str | Path | None, **extra: Any) -> NpuTestbedAdvisor:
    """Make the advisor that ``mlia check`` runs; RefusedError for what no replay is made of."""
    if not isinstance(model, str | Path):
        raise RefusedError(f"Backend {NAME} replays files: give a .tflite, a compiled *_vela.tflite or a .pte.")
    profile = NpuTestbedProfile.load_profile(target_profile, extra.get("backend_options") or {})
    return NpuTestbedAdvisor(Task(Path(model), profile.profile_name, profile.description, profile.device, profile.options))


class NpuTestbedTarget(TargetPlugin):  # type: ignore[misc]  # the package has no types
    """Registers the target, whose one backend is ours."""

    plugin_interface_version = "0.0.2"

    @staticmethod
    def register(registry: Any) -> None:
        """Register the target."""
        info = TargetInfo(
            supported_backends=[NAME], default_backends=[NAME], advisor_factory_func=make_advisor, target_profile_cls=NpuTestbedProfile
        )
        registry.register(NAME, info, pretty_name="NPU of the Arm Ethos-U55 class, by npu-testbed")
