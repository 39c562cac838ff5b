"""Rules for requests above capacity, one file each."""
