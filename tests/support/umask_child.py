"""A script that prints the file mode mask with which its process was started."""

import os

print(os.umask(0))
