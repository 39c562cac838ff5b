"""The program held against what was published and measured, and the page that tells the outcome."""

from diploee.published.check import Check, Section
from diploee.published.page import SECTIONS, sections, validation_page

__all__ = ["SECTIONS", "Check", "Section", "sections", "validation_page"]
