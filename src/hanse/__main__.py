"""`python -m hanse`."""

from __future__ import annotations

from hanse.cli import main

if __name__ == "__main__":
    main()
