"""What is done to tables and when: updates, sealing, purging, erasing, landing folders; and Ebb from Python."""

from maintenance.api import OpenTable, Warehouse
from maintenance.update import Report

__all__ = ["OpenTable", "Report", "Warehouse"]
