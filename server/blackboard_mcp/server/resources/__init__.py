"""What clients list beside the tools: resources, menus and prompts of the boards."""
