"""The grammars of Almanac's second world: one language a file, for a speaker to check."""
