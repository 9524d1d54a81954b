"""Prints the mask of modes that this process was started with."""

import os

print(os.umask(0))
