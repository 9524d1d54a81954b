"""The conformance kit, which every board store must pass. A backend's test class derives from `BoardStoreKit`."""

from .board_store import BoardStoreKit as BoardStoreKit
from .fixtures import CAPABILITIES as CAPABILITIES
