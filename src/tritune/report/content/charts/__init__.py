"""Pure functions from results to Vega-Lite v6 specifications that hold their data; one file per picture."""
