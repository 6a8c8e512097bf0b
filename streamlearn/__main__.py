"""``python -m streamlearn``: the command line."""

from .cli import main

main(prog_name="streamlearn")
