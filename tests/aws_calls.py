"""The calls to AWS that a part of the source names, for tests of the policies that allow them."""

import ast
from pathlib import Path

from botocore import xform_name
from botocore.session import get_session


def named(folder: Path, *services: str) -> set[str]:
    """Return each operation of these services whose name is a string of the source."""
    models = [get_session().get_service_model(service) for service in services]
    known = {xform_name(name): name for model in models for name in model.operation_names}
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.py"))]
    words = [each.value for tree in trees for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    return {known[word] for word in words if isinstance(word, str) and word in known}
