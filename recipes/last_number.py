"""A reward of one's own: is the completion's last word the right number?

math-verify would evaluate "2 + 4 = 2 + 4" and call it right for 6. GRPO finds such holes within minutes.
"""

import re

FINAL_NUMBER = re.compile(r"(?:^|=|\bis)\s*(-?\d+)\s*\.?\s*$")


def last_number(completions, answer, **columns):
    """1.0 where the completion is, or ends in "= " or "is ", the answer alone."""
    return [
        float(found(message) == right.strip()) for message, right in zip(completions, answer, strict=True)
    ]


def found(completion):
    text = completion if isinstance(completion, str) else completion[0]["content"]
    match = FINAL_NUMBER.search(text.strip())
    return match[1] if match else None
