"""`python -m tools.engines`: get Podman and dockerd, if they are missing."""

import sys

from tools.engines.getting import main

sys.exit(main())
