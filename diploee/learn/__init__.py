"""From logs, traces and loads to what a scenario asks for: fits and deconvolution."""
