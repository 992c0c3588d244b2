"""Spills: tensors that live in an outer memory and come through the arena by DMA, and the choice of them."""
