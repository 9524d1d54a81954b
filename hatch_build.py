"""The build hooks: the package's page on an index, and the dependencies of the platform that a wheel is for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement
from packaging.tags import sys_tags

_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def published(readme: str, repository: str, version: str) -> str:
    """Returns the README with its relative links made absolute; without a repository only their texts are left."""
    if not repository:
        return _RELATIVE.sub(r"\1", readme)
    return _RELATIVE.sub(rf"[\1]({repository}/blob/v{version}/\2)", readme)


def musl() -> str:
    """Returns the platform tag where the C library is musl, such as musllinux_1_2_x86_64, else "".

    The variable BLACKBOARD_MUSL gives the tag instead, to build for another platform.
    """
    here = (tag.platform for tag in sys_tags() if tag.platform.startswith("musllinux"))
    return os.environ.get("BLACKBOARD_MUSL") or next(here, "")


class WheelTag(BuildHookInterface):
    """Gives a wheel built for musl its platform tag.

    Such a wheel has fewer dependencies: installers prefer it on musl and take it nowhere else.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Sets the wheel's tag if the platform has musl."""
        if tag := musl():
            build_data["tag"] = f"py3-none-{tag}"


class PackagePage(MetadataHookInterface):
    """Sets the package's page and links, and leaves out dependencies that have no wheels for musl.

    The address of the repository comes from pyproject.toml.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the package's dependencies, readme and links."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        if musl():
            without = tuple(self.config["without_on_musl"])
            metadata["dependencies"] = [
                need for need in metadata["dependencies"] if Requirement(need).name not in without
            ]
        readme = Path(self.root, "README.md").read_text("utf-8")
        text = published(readme, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository:
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/tree/v{metadata['version']}/docs",
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
