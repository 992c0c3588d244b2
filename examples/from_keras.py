"""From a Keras model to the .tflite that npu-testbed takes: a keyword spotter, quantised to 8 bits; nothing is trained.

``python -m examples.from_keras OUT.tflite`` writes it; it needs TensorFlow, which no other part of the project does. TensorFlow 2.21 wrote
``keyword_spotter.tflite`` next to this file in this way. Its weights are random, because cycles do not depend on what a network has learnt.
For a network of your own, keep the model you have trained and write the samples that it is fed with.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples import ended
from npu_model.errors import InputError
from npu_testbed.ground.files import require_writable, write_file

CHANNELS, BLOCKS, WORDS = 64, 4, 12
"""The depthwise separable network of the MLPerf Tiny benchmark, which hears one of ten words, silence, or something else."""

SAMPLES = 32
"""Inputs that the ranges of the tensors are taken from."""

SEED = 1


def keyword_spotter(keras: Any) -> Any:
    """The network: 49 windows of 10 coefficients each, a convolution, four depthwise separable blocks, an average, a classifier."""
    layers = keras.layers
    keras.utils.set_random_seed(SEED)
    image = keras.Input((49, 10, 1), batch_size=1, name="sound")
    found = layers.Conv2D(CHANNELS, (10, 4), strides=2, padding="same", activation="relu", name="stem")(image)
    for number in range(1, BLOCKS + 1):
        found = layers.DepthwiseConv2D(3, padding="same", activation="relu", name=f"depthwise_{number}")(found)
        found = layers.Conv2D(CHANNELS, 1, activation="relu", name=f"pointwise_{number}")(found)
    found = layers.GlobalAveragePooling2D(name="average")(found)
    return keras.Model(image, layers.Dense(WORDS, activation="softmax", name="word")(found))


def quantised(tf: Any, model: Any) -> bytes:
    """The model in 8 bits, inputs and outputs too: what the NPU runs as a whole."""
    noise = tf.random.Generator.from_seed(SEED)

    def samples() -> Iterator[list[Any]]:
        for _ in range(SAMPLES):
            yield [noise.normal((1, *model.input_shape[1:]))]

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = samples
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="OUT.tflite", type=Path, help="the file to write")
    path = parser.parse_args().model
    require_writable(path)
    try:
        import tensorflow as tf  # noqa: PLC0415  # it is large, and this is the one example that needs it
    except ModuleNotFoundError:
        raise InputError("TensorFlow is not installed, which holds Keras: pip install tensorflow.") from None
    data = quantised(tf, keyword_spotter(tf.keras))
    write_file(path, data)
    sys.stdout.write(f"{path}: {len(data):,} bytes\n")


if __name__ == "__main__":
    sys.exit(ended(main, searches=False))
