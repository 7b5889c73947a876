"""A document as a browser page, for the terminal, as Markdown, as JSON."""
