"""``python -m selfheal_rl.cli`` is ``selfheal``."""

from selfheal_rl.cli.app import main

main()
