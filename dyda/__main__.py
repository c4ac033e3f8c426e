"""`python -m dyda …` is `dyda …`."""

from dyda.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
