"""What stays on disk: the folders of runs, the journal of what was changed on servers, and its guard."""
