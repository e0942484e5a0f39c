"""Tasks of encoders beside translation: labels of texts and of words."""
