"""`python -m gradebook`: the command line."""

from gradebook.flows.program.entry import main

if __name__ == "__main__":
    main()
