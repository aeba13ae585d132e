"""`python -m eigengap` is the command `eigengap`."""

from eigengap.cli import main

if __name__ == "__main__":
    main()
