"""Models, one package for each provider."""
