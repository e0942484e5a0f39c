"""The version that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("dragoman")
except PackageNotFoundError:  # a checkout that is on the path without being installed
    __version__ = "0+unknown"
