"""Questions and answers: traffic, settings, predictions, and how far to trust them."""
