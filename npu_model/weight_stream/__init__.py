"""Weight and scale streams: their coding, the order of weights in them, and the work of decoding them."""
