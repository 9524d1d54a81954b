"""Resources, menus and prompts: everything that clients list beside the tools."""
