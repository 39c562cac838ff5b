"""The kinds of limits that ship: each is a key of a file, and its checks on a run."""
