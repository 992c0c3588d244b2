"""Forms of a network: the same mathematics in other layouts, shapes, block depths and slices. Each form is searched on its own."""

from cascader.ethosu.forms.making import FormsInTurn, FormTerms, MadeForm, forms
from cascader.ethosu.forms.sizes import is_flat, is_small

__all__ = ["FormTerms", "FormsInTurn", "MadeForm", "forms", "is_flat", "is_small"]
