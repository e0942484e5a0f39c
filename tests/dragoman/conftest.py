"""The model and the sound of the tests of shared/, for those of the commands and of exchange."""

from tests.shared.conftest import speech_model, write_sound  # noqa: F401
