"""Made-up dialogues with questions about them, where an answer seldom has the words of the question that it answers.

Two people talk in each; three matters come up in turn. Others talk about the same matters elsewhere, with other
answers. The questions name a person and a matter in other words than the dialogue. Half of the matters are for tuning,
the other half for telling.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

PEOPLE = ("Ana", "Ben", "Cleo", "Dirk", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kara", "Liam")
MATTERS: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
    (
        ("Did the backup of the orders database run?", "Any luck with the backup of orders?"),
        "the outcome of backing up the orders data",
        (
            "Yes, it took forty minutes.",
            "No, it stopped half way.",
            "It ran twice, in fact.",
            "Only for the small tables.",
        ),
    ),
    (
        ("Have you looked into the login time-outs?", "What about the time-outs at login?"),
        "why people time out when they log in",
        (
            "A firewall rule drops idle sockets.",
            "The token service is slow.",
            "It is the proxy again.",
            "Nothing found so far.",
        ),
    ),
    (
        ("Where do we keep the certificates now?", "Did the certificates move?"),
        "the place of the certificates",
        (
            "In the vault, second shelf.",
            "Still on the old host.",
            "With the platform team.",
            "On a stick in my drawer.",
        ),
    ),
    (
        ("How did the load test go?", "Is the load test over?"),
        "the result of the load test",
        (
            "We fell over at nine hundred users.",
            "Fine up to two thousand.",
            "It never started.",
            "Half of the requests failed.",
        ),
    ),
    (
        ("Who reviews the payment patch?", "Has anybody read the payment patch?"),
        "the reviewer of the payments change",
        ("My sister does.", "I asked somebody in Lisbon.", "Nobody has time.", "It is merged already."),
    ),
    (
        ("When does the office move?", "Do you know the date of the office move?"),
        "the date at which the office relocates",
        ("In the second week of May.", "After the holidays.", "It was called off.", "Not before winter."),
    ),
    (
        ("What did the customer from Oslo want?", "Has the Oslo customer called?"),
        "the request of the client in Oslo",
        ("A refund for last year.", "More seats.", "They want to leave.", "Just an invoice."),
    ),
    (
        ("Is the search index rebuilt?", "What became of rebuilding the search index?"),
        "the state of the search index rebuild",
        ("Seventy percent.", "It ran out of disk.", "Done since Monday.", "I have not begun."),
    ),
    (
        ("Which printer works?", "Has somebody mended the printer?"),
        "a printer that can be used",
        ("The one upstairs.", "None, I fear.", "Take the blue one.", "It eats the paper."),
    ),
    (
        ("Did you try the new editor?", "What do you think of the new editor?"),
        "an opinion of the new editor",
        ("Too slow for me.", "I love the colours.", "It lost my work.", "I went back to the old one."),
    ),
)
CHAT = (
    "Good morning!",
    "One moment, somebody is at the door.",
    "Sorry, I was in a call.",
    "Right.",
    "I see, thanks.",
    "Let us talk about it tomorrow.",
    "That is good to know.",
    "By the way, lunch is at noon.",
    "Ha, typical.",
    "Sure.",
)
ASKED = (
    "What did {who} say about {what}?",
    "According to {who}, {what}?",
    "{who} told somebody {what}; what was it?",
)


MONTHS = ("January", "April", "June", "July", "September", "October", "November", "December")


def made(
    half: int, dialogues: int = 60, seed: int = 7, *, months: bool = False, tags: bool = False
) -> dict[str, Any]:
    """Returns a set of documents and questions; `half` is 0 for tuning and 1 for telling.

    With `months` each dialogue has one, and the questions name it. With `tags` what is said on a matter has the longest
    word of its other name as a tag.
    """
    rnd = random.Random(seed + half)
    matters = MATTERS[half::2]
    docs: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    for thread in range(dialogues):
        one, other = rnd.sample(PEOPLE, 2)
        month = thread % len(MONTHS)
        at = datetime(2025, datetime.strptime(MONTHS[month], "%B").month, 1 + thread % 28, tzinfo=UTC)
        for asked, what, answers in rnd.sample(matters, 3):
            asks, says = rnd.sample((one, other), 2)
            turns = [
                (asks, f"{rnd.choice((f'{says}, ', ''))}{rnd.choice(asked)}"),
                (says, rnd.choice(answers)),
            ]
            for speaker in rnd.sample((one, other), rnd.randrange(1, 3)):
                turns.append((speaker, rnd.choice(CHAT)))
            for place, (speaker, text) in enumerate(turns):
                if place == 1:
                    question = rnd.choice(ASKED).format(who=says, what=what)
                    question = f"{question[:-1]} in {MONTHS[month]} 2025?" if months else question
                    relevant = [str(len(docs)), str(len(docs) - 1)]
                    queries.append({"q": question, "relevant": relevant, "exclude": []})
                doc = {"id": str(len(docs)), "author": speaker, "thread": thread, "text": text}
                doc |= {"at": at.isoformat()} if months else {}
                doc |= {"tags": [max(what.split(), key=len)]} if tags and place < 2 else {}
                docs.append(doc)
    known: dict[str, set[str]] = {}
    for query in queries:  # the same question about another dialogue has other answers: all of them count
        known.setdefault(query["q"], set()).update(query["relevant"])
    return {
        "docs": docs,
        "queries": [{"q": q, "relevant": sorted(r), "exclude": []} for q, r in known.items()],
    }
