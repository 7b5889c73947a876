"""From counters to a cause: one decomposition, one file per rule, a ranking. Read-only and pure."""
