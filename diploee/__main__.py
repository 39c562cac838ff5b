"""Entry point of `python -m diploee`, the command line."""

from diploee.cli import main

main()
