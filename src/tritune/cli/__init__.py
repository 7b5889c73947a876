"""One file per verb: parse, wire the real world to the verb, show. The only place that prints and exits."""
