"""Fits of request traces as request streams of a scenario."""
