"""Ensembles: a chain of models, each played with the requests that really reach it."""
