"""Queue disciplines that a scenario may name: one module each, with its spec."""
