"""Resources, menus and prompts: what clients list beside the tools."""
