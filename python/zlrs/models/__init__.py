"""Model files: known by name, fetched once, checked, kept in one folder."""

from zlrs.models.errors import ChecksumError, DownloadError, ModelStoreError, UnknownModelError
from zlrs.models.fetch import installed, pull, remove, resolve, verify
from zlrs.models.registry import Model, find_model, known_models
from zlrs.models.store import home, models_folder

__all__ = [
    "ChecksumError",
    "DownloadError",
    "Model",
    "ModelStoreError",
    "UnknownModelError",
    "find_model",
    "home",
    "installed",
    "known_models",
    "models_folder",
    "pull",
    "remove",
    "resolve",
    "verify",
]
