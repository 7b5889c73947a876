"""What may change, in which order, and what counts as better. Decides; never acts."""
