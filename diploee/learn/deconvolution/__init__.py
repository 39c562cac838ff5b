"""Deconvolution: from the observed load of a facility back to when its jobs were submitted."""
