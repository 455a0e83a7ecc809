"""A reward with variance even for an untrained policy."""


def digits(completions, answer, **columns):
    return [share(text, right) for text, right in zip(completions, answer, strict=True)]


def share(text, right):
    return sum(text[i : i + 1] == digit for i, digit in enumerate(right)) / len(right)


def broken(completions, **columns):
    raise ValueError("the rubric is missing")


def picky(completions, answer, **columns):
    for text in completions:
        if len(text) % 2:
            raise ValueError(f"cannot read {len(text)} characters")
    return digits(completions, answer)
