"""Everything that touches the outside: one package for each backend of each port."""
