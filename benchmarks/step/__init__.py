"""The parts of the step benchmark: cases, our side, TRL's side, arithmetic."""
