"""TFLite models as plain values: read, held as records and written."""
