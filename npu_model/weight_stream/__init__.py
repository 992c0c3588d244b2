"""Weight and scale streams: their coding, the order of weights in them, and the decoder's work."""
