"""One module per verb: it orders the work, and sees the world only through `ports`."""
