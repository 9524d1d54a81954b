"""The conformance kits: tests of a store derive from `BoardStoreKit`, those of an index from `ArchiveIndexKit`."""

from .archive_index import ArchiveIndexKit as ArchiveIndexKit
from .board_store import BoardStoreKit as BoardStoreKit
from .fixtures import CAPABILITIES as CAPABILITIES
