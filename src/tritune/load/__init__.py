"""Sends prepared requests and records every attempt; enter by engine.HttpLoadEngine or warmup.warm_up."""
