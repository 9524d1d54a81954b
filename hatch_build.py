"""What the package's page on an index says and leads to: the README with links that lead somewhere from there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def published(readme: str, repository: str, version: str) -> str:
    """The README with its relative links made absolute; without a repository they are the words alone."""
    if not repository:
        return _RELATIVE.sub(r"\1", readme)
    return _RELATIVE.sub(rf"[\1]({repository}/blob/v{version}/\2)", readme)


class PackagePage(MetadataHookInterface):
    """Takes the address of the repository from pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = str(self.config.get("repository", "")).rstrip("/")
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
