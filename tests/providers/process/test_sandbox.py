import shutil

import pytest

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed (Debian: apt-get install bubblewrap)"
)
