"""All that touches names which Flower does not promise to keep: to be read again with each new version."""

from __future__ import annotations
