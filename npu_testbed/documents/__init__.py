"""The ``--json`` documents as values, one family a module, and the JSON Schema that each is published with.

>>> from npu_testbed.documents import json_schema
>>> json_schema("export")["properties"]["files"]["description"]
'Bytes written, by path.'
"""

from __future__ import annotations

from npu_model.front import front
from npu_testbed.documents.document import Document, Entry

# Few commands print a schema.
with front() as __getattr__:
    from npu_testbed.documents.published import json_schema, schema_names, schema_version

__all__ = ["Document", "Entry", "json_schema", "schema_names", "schema_version"]
