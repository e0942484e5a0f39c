"""Systems: models with what they read and write, their folders, and systems made of systems."""
