"""`python -m diploee` is the command line."""

from diploee.cli import main

main()
