"""The nouns: frozen values that the other packages pass to each other. No effects, no policy."""
