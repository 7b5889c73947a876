"""One content model (`content`, thinking) and its renderings (`render`): screen, Markdown, JSON, HTML."""
