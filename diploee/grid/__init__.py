"""Grid studies of a run: limits, ride-through and exports."""
