"""Forms of a network: the same mathematics in other layouts, shapes, block depths and pieces, each of which is searched on its own."""

from cascader.ethosu.forms.catalogue import Forms, forms, is_flat, is_small, variants

__all__ = ["Forms", "forms", "is_flat", "is_small", "variants"]
