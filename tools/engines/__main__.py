"""`python -m tools.engines`: get Podman and dockerd, if they are missing.

`python -m tools.engines close KIND DIRECTORY` ends one that was left behind, with all that it has.
"""

import sys
from pathlib import Path

from tools.engines.getting import main
from tools.engines.running import Engine

match sys.argv[1:]:
    case ["close", kind, directory]:
        Engine(kind, Path(directory)).adopt().close()
    case _:
        sys.exit(main())
