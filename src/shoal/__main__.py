"""`python -m shoal`: the `shoal` command, of the interpreter that runs it."""

from shoal.cli import main

if __name__ == "__main__":
    main()
