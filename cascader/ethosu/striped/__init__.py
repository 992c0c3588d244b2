"""Plans of stripes along any axes (TVM RFC 0037) for the NPU: networks unrolled into boxes, and their schedules."""
