"""Streams that older Velas emitted, as golden text forms: legal, and replayed alike by the engine and its twin.

``tests/golden/streams`` holds the text forms (without constants) of networks as Vela 2.1.1, 3.0.0 and 3.12.0 compile them with their
defaults for ethos-u55-128: of ds_cnn by Vela 3.0.0 the first of two Programs, of deeplabv3 by Vela 2.1.1 the eighth and the
ninth of eleven.
"""A window of 4 columns, stride 2 and a column of padding on the left (TFLite's SAME for 10 columns) is made one of column pairs.

    The padded column is half of a pair: three pairs are needed, the first and the last half empty. Vela 3.0.0 takes two and no padding.
    """
    old, new = (next(iter(stream(f"ds_cnn_kws_i8.vela-{version}.txt.gz").kernels)) for version in ("3.0.0", "3.12.0"))
    for op in (old, new):
        assert (op.ifm.shape.width, op.ifm.shape.depth, op.kernel.height, op.kernel.stride_x) == (5, 2, 10, 1)
    assert (new.kernel.width, new.padding.left, new.padding.right) == (3, 1, 1)
    assert (old.kernel.width, old.padding.left, old.padding.right) == (2, 0, 1)


def test_vela_2_1_1_asks_the_pools_of_a_resize_to_truncate_and_gives_them_no_scale() -> None:
    """OFM_SCALE still holds what the multiplication before wrote: without the global bit an average with padding does not use it."""
    kernels = list(stream("deeplabv3_mnv3_256_i8.vela-2.1.1-program-8.txt.gz").kernels)
    pools = [op for op in kernels if op.pool is PoolKind.AVERAGE]
    (scaled,) = (op for op in kernels if op.elementwise is ElementwiseKind.MUL)
    assert {(op.kernel, op.upscale) for op in pools} == {(Kernel(2, 2), Upscale.NEAREST)}
    assert {(op.rounding, op.global_scale, op.ofm_scale) for op in pools} == {(Rounding.TRUNCATE, False, scaled.ofm_scale)}


def test_vela_2_1_1_writes_a_sum_over_an_operand_that_the_next_program_reads() -> None:
    eighth, ninth = (stream(f"deeplabv3_mnv3_256_i8.vela-2.1.1-program-{number}.txt.gz") for number in (8, 9))
    (operand,) = (binding for binding in eighth.inputs if binding.name == "model/tf.math.add_13/Add_cpu")
    *_, total = eighth.kernels
    assert total.elementwise is ElementwiseKind.ADD
    assert total.ifm.tiles.bases[0] == total.ofm.tiles.bases[0] == operand.address
    assert operand in ninth.inputs
