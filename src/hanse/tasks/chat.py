"""One question to an OpenAI-compatible chat endpoint."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from http.client import HTTPException
from typing import Any, Protocol

_MOST_BYTES = 1 << 20


class Endpoint(Protocol):
    """Where a recipe says whom to ask, and how."""

    @property
    def url(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def key_variable(self) -> str: ...
    @property
    def temperature(self) -> float: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def timeout_s(self) -> float: ...


class ChatError(RuntimeError):
    """No usable reply."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key is for the host that the recipe names."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def ask(spec: Endpoint, prompt: str) -> str:
    """The reply to a user turn, within `timeout_s`. Raises ChatError, which never holds the key."""
    body = {
        "model": spec.model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": spec.temperature,
        "max_tokens": spec.max_tokens,
    }
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(spec.key_variable):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(_endpoint(spec.url), json.dumps(body).encode(), headers)
    deadline = time.monotonic() + spec.timeout_s
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=spec.timeout_s) as response:
            document = json.loads(_read(response, deadline))
        reply = document["choices"][0]["message"]["content"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ChatError(f"the judge gave no reply: {type(error).__name__}") from None
    if not isinstance(reply, str):
        raise ChatError("the judge's reply is not text")
    return reply


def _endpoint(url: str) -> str:
    url = url.rstrip("/")
    return url if url.endswith("/chat/completions") else f"{url}/chat/completions"


def _read(response: Any, deadline: float) -> bytes:
    """The whole body. Raises TimeoutError or ValueError: a slow or endless one is no reply."""
    parts, size = [], 0
    while part := response.read1(1 << 16):
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > _MOST_BYTES:
            raise ValueError("too long")
        parts.append(part)
    return b"".join(parts)
