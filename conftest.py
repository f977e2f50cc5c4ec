"""Settings every test shares."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# No deadline: a busy machine is no defect. Derandomised: a red run is red again.
settings.register_profile("selfheal", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("selfheal")
