"""The command line: one file per command, imported lazily by :mod:`selfheal_rl.cli.app`."""
