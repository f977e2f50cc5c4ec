"""One tree of errors. A message says what was found, what was expected and what to do."""


class SelfHealError(Exception):
    """Base of every error this package raises on its own account."""


class ConfigError(SelfHealError, ValueError):
    """A world, recipe, option or argument is wrong."""


class UnknownIdError(ConfigError):
    """A bare id names no bundled item."""


class ArtifactError(SelfHealError):
    """A policy artifact is damaged, tampered with, or made for another spec."""


class IllegalMaskError(SelfHealError, ValueError):
    """An action mask leaves nothing to choose, or has the wrong shape."""


class ObservationError(SelfHealError, ValueError):
    """An observation has the wrong width or type."""


class JournalError(SelfHealError):
    """The journal cannot be opened, read or written."""


class HealingFailed(SelfHealError):  # noqa: N818  (the name users catch)
    """Raised ``from`` the agent's own error, only where the caller asked for it."""
