"""Values that come in parts, and values that come from several sides."""

from blobcp.stream.merge import merge_values, register_merge

__all__ = ["merge_values", "register_merge"]
