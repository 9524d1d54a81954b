"""Structured results about summaries that agents write; see `wire`."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from .summaries import SummaryRequest
from .wire import OneOf, Wire, WireItem


class WireSummaryRequest(Wire):
    """A finished thread that an agent is asked to summarise."""

    thread: str
    sources: list[str]
    tokens: int = Field(description="of the sources")
    opened_at: datetime
    due_at: datetime = Field(description="then the server writes it without a model")
    holder: str | None
    held_until: datetime | None


def wire_summary_request(request: SummaryRequest) -> WireSummaryRequest:
    """Returns a request for a summary as structured results show it."""
    return WireSummaryRequest(
        thread=request.name,
        sources=list(request.sources),
        tokens=request.tokens,
        opened_at=request.opened_at,
        due_at=request.due_at,
        holder=request.holder,
        held_until=request.held_until,
    )


class WireSource(Wire):
    id: str
    type: str
    author: str
    text: str
    whole: bool = Field(description="false: the start and the end; read has it all")


class SummaryRequestsAnswer(Wire):
    requests: list[WireSummaryRequest]
    seq: int


class SummaryTakenAnswer(Wire):
    """A request that is the caller's until `held_until`."""

    request: WireSummaryRequest
    lease: int
    rules: list[str]
    limit_tokens: int
    sources: list[WireSource]
    seq: int


class SummaryWrittenAnswer(Wire):
    item: WireItem
    seq: int


class SummaryOnRequestAnswer(Wire):
    """A summary for the caller alone; `summary` is null when there is too little for one."""

    summary: str | None
    covered: list[str]
    debated: list[str] = Field(description="left out: a debate about them is open")
    seq: int


class SummarizeAnswer(
    OneOf[SummaryRequestsAnswer | SummaryTakenAnswer | SummaryWrittenAnswer | SummaryOnRequestAnswer]
):
    """What `summarize` answers: what is asked for, taken or written, or a summary on request."""
