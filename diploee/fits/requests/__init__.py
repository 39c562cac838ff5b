"""From a request trace to the request stream of a scenario."""
