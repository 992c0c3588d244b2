"""The ``--json`` documents as values, one family a module, and the JSON Schema that each is published with.

>>> from npu_testbed.documents import json_schema
>>> json_schema("export")["properties"]["files"]["description"]
'Bytes written, by path.'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front
from npu_testbed.documents.document import Document, Entry

if TYPE_CHECKING:
    from npu_testbed.documents.published import json_schema, schema_names, schema_version

__all__ = ["Document", "Entry", "json_schema", "schema_names", "schema_version"]


# Few commands print a schema.
__getattr__ = front(__name__, {"npu_testbed.documents.published": ["json_schema", "schema_names", "schema_version"]})
