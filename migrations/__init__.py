"""Bring stored checkpoints up to the code that is to load them.

:func:`migrate_checkpoint_state` changes the states in one blob. :class:`Migrations` has the steps from each version of an
application's checkpoints to the next; ``graph.compile(migrations=...)`` takes them at each load, and
:meth:`Migrations.apply` for one blob. :class:`MigrationJob` does either to all blobs of a store, :func:`restore` takes that
back, and :func:`copy_store` moves blobs from one store to another.
"""

from __future__ import annotations

from .backup import restore
from .chain import Migrations
from .copying import copy_store
from .differences import Change, Sample, differences
from .dropped import Dropped
from .header_filter import HeaderFilter
from .job import MigrationJob
from .journal_store import StoreJournal
from .migrated import Migrated
from .nodes import remove_node, rename_node
from .one_blob import migrate_checkpoint_state
from .operations import Operation, add_field, drop_field, map_enum_value, move_type, rename_field, rename_type
from .report import Failure, JobReport

__all__ = [
    "Change",
    "Dropped",
    "Failure",
    "HeaderFilter",
    "JobReport",
    "Migrated",
    "MigrationJob",
    "Migrations",
    "Operation",
    "Sample",
    "StoreJournal",
    "add_field",
    "copy_store",
    "differences",
    "drop_field",
    "map_enum_value",
    "migrate_checkpoint_state",
    "move_type",
    "remove_node",
    "rename_field",
    "rename_node",
    "rename_type",
    "restore",
]
