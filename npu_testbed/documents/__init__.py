"""The ``--json`` documents as values, one family a module, and the JSON Schema that each is published with.

>>> json_schema("export")["properties"]["files"]["description"]
'Bytes written, by path.'
"""

from npu_testbed.documents.document import Document, Entry
from npu_testbed.documents.published import json_schema, schema_names, schema_version

__all__ = ["Document", "Entry", "json_schema", "schema_names", "schema_version"]
