"""The conformance kit, which every board store must pass.

    class TestMyStore(BoardStoreKit): two_handles = True

        async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
            return await MyStore.open(folder / "board", clock=clock)

Each test has a store of its own. Tests that need two stores on the same data run only if the backend supports them.
The kit detects that, compares it with what the class declares, and reports it as the reason of a skip.
"""

from __future__ import annotations

from .adding import AcknowledgingTests, AddingTests
from .agreeing import AgreementTests
from .asking import RequestTests
from .budgeting import AgendaBudgetTests
from .cancelling import CancellationTests
from .claiming import ClaimTests, SuggestionTests
from .consuming import ConsumerGroupTests
from .copies import CopyTests
from .counting import CountingTests
from .credentials import CredentialTests
from .debates import DebateTests
from .deciding import DecidingTests
from .deleting import DeletingTests
from .duplicating import DuplicateTests
from .endorsing import EndorsementTests
from .events import EventTests, FedTests, SummingTests
from .explaining import ExplainTests
from .filing import WorkspaceTests
from .fixtures import CAPABILITIES, StoreFixtures
from .forgetting import ForgettingTests
from .guarding import GuardTests
from .handles import DurabilityTests, HandleTests
from .judging import JudgingTests
from .keeping import KeepingTests
from .leaving import LeavingTests
from .members import MemberTests
from .naming import NamingTests
from .noticing import NoticeTests
from .panelling import PanelTests
from .participating import ParticipantTests
from .planning import PlanningTests, ReservationTests, SettlingTests, TakingTests
from .posting import PostingTests
from .pressing import PressureTests
from .privacy import PrivacyTests
from .questions import QuestionTests
from .reading import ReadingTests
from .repeating import RepeatingTests
from .retracting import RetractionTests
from .ruling import RuleTests
from .running import BudgetTests, DecisionTests, FinalTests, RunTests, SealedTests
from .sighting import SightingTests
from .staging import ConditionTests, StageTests
from .storing import StoringTests
from .sub_boards import SubBoardTests
from .subscribing import SubscriptionTests
from .summarising import SummaryTests
from .teams import TeamTests
from .transacting import TransactionTests
from .unseen import UnseenTests
from .using import UseTests
from .versions import VersionTests
from .voting import VotingTests
from .watching import WatchingTests

__all__ = ["CAPABILITIES", "BoardStoreKit"]


class BoardStoreKit(
    PostingTests,
    WorkspaceTests,
    VersionTests,
    DeletingTests,
    ReadingTests,
    RepeatingTests,
    PrivacyTests,
    KeepingTests,
    PanelTests,
    TeamTests,
    MemberTests,
    NamingTests,
    EventTests,
    SubscriptionTests,
    ConsumerGroupTests,
    CopyTests,
    CountingTests,
    ExplainTests,
    DebateTests,
    DecidingTests,
    VotingTests,
    WatchingTests,
    GuardTests,
    EndorsementTests,
    DuplicateTests,
    ClaimTests,
    AgreementTests,
    SuggestionTests,
    RetractionTests,
    LeavingTests,
    ForgettingTests,
    SummaryTests,
    TransactionTests,
    AddingTests,
    AcknowledgingTests,
    UnseenTests,
    NoticeTests,
    UseTests,
    SightingTests,
    StoringTests,
    PressureTests,
    QuestionTests,
    CancellationTests,
    RequestTests,
    ParticipantTests,
    JudgingTests,
    CredentialTests,
    PlanningTests,
    StageTests,
    ConditionTests,
    TakingTests,
    AgendaBudgetTests,
    SettlingTests,
    ReservationTests,
    SubBoardTests,
    RuleTests,
    RunTests,
    DecisionTests,
    BudgetTests,
    SealedTests,
    FinalTests,
    SummingTests,
    FedTests,
    DurabilityTests,
    HandleTests,
    StoreFixtures,
):
    """The whole kit. Subclass it, declare `two_handles`, and define how to open a store."""
