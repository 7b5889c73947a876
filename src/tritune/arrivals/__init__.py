"""When requests are sent: the workload's pattern as planned instants, made before the clock starts."""
