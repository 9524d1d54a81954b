"""The module that makes `python -m blackboard_mcp.server` the same as `blackboard-mcp`."""

from .cli import main

if __name__ == "__main__":
    main()
