"""What happens to requests above capacity, a file for each way."""
