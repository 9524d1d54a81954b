"""The capabilities of board stores and of archive indexes, each with the classes of the kit that test it."""

from __future__ import annotations

from typing import Final

TESTS_OF: Final[dict[str, str]] = {
    "posting": "PostingTests AddingTests NamingTests CountingTests DuplicateTests EndorsementTests",
    "versions": "VersionTests DeletingTests",
    "reading": "ReadingTests ExplainTests UnseenTests NoticeTests UseTests SightingTests",
    "transactions": "TransactionTests CancellationTests",
    "idempotency": "RepeatingTests",
    "privacy": "PrivacyTests TeamTests",
    "read-rules": "KeepingTests",
    "access": "MemberTests JudgingTests",
    "events": "EventTests",
    "subscriptions": "SubscriptionTests",
    "consumer-groups": "ConsumerGroupTests",
    "requests": "RequestTests",
    "participants": "ParticipantTests",
    "debates": "DebateTests DecidingTests VotingTests WatchingTests AcknowledgingTests QuestionTests",
    "claims": "ClaimTests SuggestionTests AgreementTests RetractionTests",
    "pruning": "GuardTests LeavingTests PressureTests SummaryTests",
    "limits": "StoringTests",
    "forgetting": "ForgettingTests",
    "rules": "RuleTests",
    "agenda": "PlanningTests TakingTests SettlingTests ReservationTests SubBoardTests AgendaBudgetTests",
    "stages": "StageTests ConditionTests",
    "runs": "RunTests DecisionTests BudgetTests SealedTests FinalTests",
    "panels": "PanelTests",
    "workspace": "WorkspaceTests",
    "copies": "CopyTests",
    "archive-sums": "SummingTests",
    "several-indexes": "FedTests",
    "access-tokens": "CredentialTests",
    "durability": "DurabilityTests",
    "two-handles": "HandleTests",
}
"""Names of test classes by capability. The last five are optional: a store without one is skipped by its tests."""

INDEX_TESTS_OF: Final[dict[str, str]] = {
    "documents": "IndexDocumentTests",
    "search": "IndexSearchTests",
    "filters": "IndexFilterTests",
    "waiting": "IndexWaitingTests",
    "sight": "IndexSightTests",
    "lives": "IndexLifeTests",
    "sums": "IndexSummingTests",
    "durability": "IndexDurabilityTests",
}
"""Names of test classes by capability of an index. The last two are optional."""
