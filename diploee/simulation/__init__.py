"""A prepared site through time: pipeline, run folder, forecast, plausibility."""
