"""Loggers under NIXL's names; the level is that of Python's logging, or of the environment's NIXL_LOG_LEVEL."""

from __future__ import annotations

import logging
import os

_LEVELS = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"}


def get_logger(name: str) -> logging.Logger:
    """The logger of this name, below weftcomm.nixl."""
    logger = logging.getLogger(name)
    level = os.environ.get("NIXL_LOG_LEVEL", "").upper()
    level = _LEVELS.get(level, level)
    if level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        logger.setLevel(level)
    return logger
