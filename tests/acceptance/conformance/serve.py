"""`blackboard-mcp serve`, with the fixtures that the MCP conformance suite calls by name.

The command line, the store, the adapter, the HTTP application, its gate and its identities are the
product's own; after `build_server` the fixtures are added to what it serves. They are in no wheel, and no
setting of the product brings them: this program is the only way to them.
"""

from __future__ import annotations

import sys
from typing import Any

from blackboard_mcp.server import compose
from blackboard_mcp.server.cli import main
from blackboard_mcp.server.mcp.server import BoardServer
from fixtures import add_fixtures

build = compose.build_server


def build_with_fixtures(*arguments: Any, **options: Any) -> BoardServer:
    server = build(*arguments, **options)
    add_fixtures(server)
    return server


compose.build_server = build_with_fixtures
print("FIXTURES of the conformance suite are served; never do this with a board of yours.", file=sys.stderr)
sys.argv[1:1] = ["serve"]
sys.exit(main())
