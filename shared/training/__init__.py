"""The loop, its phases, schedules, checkpoints."""
