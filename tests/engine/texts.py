"""Prompts of the engine tests."""

from __future__ import annotations

REPEAT = (
    "Repeat exactly: The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog. "
    "The quick brown fox jumps over the lazy dog."
)
STORY = "Tell me a short story about a lighthouse."
CODE = (
    "Complete this Python function. Repeat the function in full.\n\n"
    "def mean_absolute_deviation(numbers: list[float]) -> float:\n"
    '    """For a given list of numbers, the mean absolute difference to their mean."""\n'
)
_FACTS = (
    "The harbour of Brenn was built in 1841 by the engineer Ida Solberg. Its light stands 38 metres above the sea. ",
    "In the winter of 1902 a storm broke the eastern mole, and the town repaired it with granite from Larvik. ",
    "Today the harbour serves nine fishing boats, a ferry to the islands, and a museum in the old customs house. ",
)
LONG = "Summarise this text in three sentences.\n\n" + "".join(
    f"Part {number}. {fact}" for number in range(8) for fact in _FACTS
)
VARIED = [
    REPEAT,
    STORY,
    CODE,
    "What is the capital of France?",
    "Translate to German: The weather is nice today and we walk along the river.",
    "Write the numbers from one to twenty as words, separated by commas.",
    "Correct the spelling and give the whole text: The librery is opne on monday, the librery is closd on sunday.",
    "Explain in two sentences why the sky is blue.",
    "List five animals that live in the sea.\n1.",
    "Janet has 3 apples and buys 2 more every day. How many does she have after 4 days? Think step by step.",
]
