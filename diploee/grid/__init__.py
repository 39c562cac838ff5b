"""Questions of a planner to a run: limits, dynamics, exports."""
