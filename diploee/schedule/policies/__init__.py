"""Queue disciplines that a scenario may name, with one module and spec each."""
