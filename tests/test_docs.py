"""What the guides show, works."""

import re
from pathlib import Path

from shared.recipe import Recipe

ROOT = Path(__file__).parent.parent


def test_the_recipe_with_two_streams(tmp_path):
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(base: .*?)```", text, re.DOTALL)
    path = tmp_path / "joint.yaml"
    path.write_text("# Joint\n" + block.replace("recipes/almanac", str(ROOT / "recipes/almanac")), encoding="utf-8")
    recipe = Recipe.load(path)
    recipe.check()
    (fit,) = recipe.plain("fit").values()
    streams = [arguments for stream in fit["streams"] for arguments in stream.values()]
    assert [(stream["name"], stream.get("weight", 1)) for stream in streams] == [("speech", 1), ("text", 3)]
