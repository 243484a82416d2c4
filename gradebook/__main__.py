"""`python -m gradebook`: the command line."""

from gradebook.flows.entry import main

if __name__ == "__main__":
    main()
