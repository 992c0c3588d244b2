"""``npu-testbed verify``: whether a schedule computes the network that it was made from."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OfModels
from npu_testbed.asked.option import Option
from npu_testbed.asked.readers import positive_count, seed_number

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.verify import VerifyOutcome


class VerifyOptions(OfModels["VerifyOutcome"], frozen=True, kw_only=True):
    """The options of ``verify``."""

    model: Annotated[
        kinds.Source | None,
        Option(
            "the network that it was made from, a .tflite file or GRAPH.py:FUNCTION, whose file is run (default: the network of the zoo or "
            "the portfolio that a schedule records)",
            "MODEL",
        ),
    ] = None
    input: Annotated[
        kinds.PathText | Sequence[kinds.PathText],
        Option(
            "run one more inference on your own inputs: a .npz file has an array for each input by name, a .npy file has the only input "
            "(repeatable; default: random inputs alone)",
            "FILE",
            many=True,
        ),
    ] = ()
    inferences: Annotated[
        int, Option("inferences to run on random inputs, every second one on extreme values (default: 2)", "N", positive_count)
    ] = 2
    seed: Annotated[int, Option("seed of the random inputs (default: 0)", "N", seed_number)] = 0
    tensorir: Annotated[
        bool,
        Option("prove a schedule file in TensorIR too: compiled and run in an arena of exactly its size (extra 'tensorir')"),
    ] = False


class Verify(VerifyOptions, frozen=True):
    """Run a schedule file, a compiled *_vela.tflite or a .pte bit by bit on random or given inputs, and compare its outputs.

    The references are Vela's legalised stream of the original network and LiteRT's reference kernels, if the extra 'numerics' is installed.
    Tensor Expressions are compared with TVM's own code for this machine. That run is in stream order: the order in which the NPU may run
    the operations is checked byte by byte.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed verify mobilenet_v1.json",
        "npu-testbed verify network_vela.tflite --model network.tflite",
        "npu-testbed verify mobilenet_v1.json --tensorir",
    )

    file: Annotated[
        kinds.Source,
        Option(
            "a schedule file, a *_vela.tflite, a .pte of one delegate, or a C source or raw .npz with driver payloads", "FILE", source=True
        ),
    ]

    def answer(self, show: "Progress") -> "VerifyOutcome":
        """Compare; status 1 for a hazard, or for outputs that differ from LiteRT's or, without it, from those of Vela's stream."""
        from npu_testbed.asked.request import shaped_model
        from npu_testbed.outcomes.verify import VerifyOutcome
        from npu_testbed.proofs.file_verification import prove, verify

        if self.input and self.tensorir:
            raise InputError("--input was given together with --tensorir, whose proof runs on random inputs: leave one of them out.")
        settings: dict[str, Any] = {"inferences": self.inferences, "seed": self.seed, "progress": show}
        file, model = str(self.file), shaped_model(self, self.model)
        # The proof comes first: it refuses what it cannot prove before any long work.
        proof = prove(file, model, **settings) if self.tensorir else None
        result = verify(file, model, files=kinds.texts(self.input), **settings)
        return VerifyOutcome(result, proof)
