"""The conformance kit: what every board store must pass. A backend's test class is a `BoardStoreKit`."""

from .board_store import BoardStoreKit as BoardStoreKit
from .fixtures import CAPABILITIES as CAPABILITIES
