"""`python -m twinlens`: the same as the `twinlens` command."""

from twinlens.cli.main import main

main()
