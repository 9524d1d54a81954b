"""Stages and milestones as text: the tree, and what a call did to some of them."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.agenda import task_id
from blackboard_mcp.protocols.stages import STAGE_OVER, Stage, Stages, StageState

from ..text.lines import clip, closed_to_posts

_LISTED = 40
_TITLE = 100
_WHY = 200
_INDENT = "  "


def stage_lines(found: Stages) -> list[str]:
    """Returns a line for each stage, indented under its parent, with the call that is due where one is."""
    stopped = closed_to_posts(found.lifecycle)
    if stopped and not found.stages:
        return [f"no stages: {stopped}"]
    if not found.stages:
        fill = 'plan(items=[{"title": "…", "stage": "G-1"}]) fills it'
        return [f'no stages: stage(define={{"title": "…"}}) begins one, {fill}']
    depth: dict[int, int] = {}
    lines: list[str] = []
    for stage in found.stages:
        depth[stage.number] = depth.get(stage.parent, -1) + 1
        lines.append(f"{_INDENT * depth[stage.number]}{_line(stage)}")
    if len(lines) > _LISTED:
        lines[_LISTED:] = [f"{len(lines) - _LISTED} more; the structured answer has them"]
    return lines + ([stopped] if stopped else list(_due(found.stages)))


def _line(stage: Stage) -> str:
    what = "milestone " if stage.kind == "milestone" else ""
    why = f" ({clip(stage.why, _WHY)})" if stage.why else ""
    optional = "" if stage.required or not stage.parent or stage.state in STAGE_OVER else ", optional"
    return f"{stage.id} {what}{stage.state}{optional}{why}: {clip(stage.title, _TITLE)}"


def _due(stages: Iterable[Stage]) -> Iterable[str]:
    """Returns the ways out of the first stage that waits for a hand."""
    for stage in stages:
        if stage.state is StageState.FAULTED:
            item = f'{{"id": "{task_id(stage.faulted[0])}", "state": "PENDING"}}' if stage.faulted else "…"
            yield (
                f'{stage.id} goes on: plan(items=[{item}], why="…") tries the task again, "COMPLETED" does without it; '
                f'or stage(id="{stage.id}", op="terminate") gives up the stage'
            )
            return
        if stage.state is StageState.ENABLED:
            yield f'{stage.id} may begin: stage(id="{stage.id}", op="start")'
            return
