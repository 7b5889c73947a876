"""Fetch the chart libraries of the HTML report from npm into src/tritune/report/assets.

    python scripts/vendor_js.py             the versions named in assets/VERSIONS
    python scripts/vendor_js.py --newest    the newest of the majors below

The result is committed, so that neither building nor running tritune needs npm or a network. npm's own
client fetches by package name (its configuration decides from where); nothing of the packages is run.
The pointers to source maps are cut off: a page that is one file has none, and a browser would look for them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

MAJORS = {"vega": "6", "vega-lite": "6", "vega-embed": "7"}
ASSETS = Path(__file__).parents[1] / "src" / "tritune" / "report" / "assets"
# vega-lite's command line needs it; it is not in the file for browsers.
NOT_IN_THE_BROWSER_BUILD = {"yargs"}


def pinned() -> dict[str, str]:
    """The versions of assets/VERSIONS, by package."""
    lines = (ASSETS / "VERSIONS").read_text(encoding="utf-8").splitlines()
    return {name: version for name, version, _ in (line.split() for line in lines if line[:1] != "#")}


def install(versions: dict[str, str], where: Path) -> Path:
    """Unpack the packages and what they depend on; returns node_modules."""
    wanted = [f"{name}@{version}" for name, version in versions.items()]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
    subprocess.run(["npm", "install", *quiet, "--prefix", str(where), *wanted], check=True)
    return where / "node_modules"


def manifest(modules: Path, name: str) -> dict[str, Any]:
    """A package's own package.json."""
    loaded: dict[str, Any] = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
    return loaded


def bundled(modules: Path) -> list[str]:
    """Every package whose code the three files may hold: the closure over `dependencies`."""
    found: set[str] = set()
    todo = list(MAJORS)
    while todo:
        name = todo.pop()
        if name in found or name in NOT_IN_THE_BROWSER_BUILD:
            continue
        found.add(name)
        todo += manifest(modules, name).get("dependencies", {})
    return sorted(found)


def notices(modules: Path) -> str:
    """All licence texts, each once, with the packages that it covers; fails where one is missing."""
    texts: dict[str, list[str]] = {}
    for name in bundled(modules):
        files = sorted(p for p in (modules / name).iterdir() if p.name.lower().startswith("licen"))
        about = manifest(modules, name)
        if not files:
            raise SystemExit(f"{name} ({about.get('license')}) has no licence file: add its notice by hand")
        text = files[0].read_text(encoding="utf-8").strip()
        texts.setdefault(text, []).append(f"{name} {about['version']} ({about.get('license')})")
    head = "Notices for the JavaScript in this folder, which is part of every HTML report.\n"
    rule = "\n" + "-" * 100 + "\n"
    return head + "".join(f"{rule}{chr(10).join(names)}\n\n{text}\n" for text, names in texts.items())


def main() -> None:
    """Fetch, check, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--newest", action="store_true", help="move to the newest release of each major")
    versions = MAJORS if parser.parse_args().newest else pinned()
    with tempfile.TemporaryDirectory() as folder:
        modules = install(versions, Path(folder))
        lines = ["# package version sha256-of-the-file; written by scripts/vendor_js.py"]
        for name in MAJORS:
            content = (modules / name / "build" / f"{name}.min.js").read_bytes()
            content = re.sub(rb"\n?//# sourceMappingURL=\S+\s*$", b"\n", content)
            if b"</script" in content.lower() or b"<!--" in content:
                raise SystemExit(f"{name}.min.js would end the script element that holds it")
            (ASSETS / f"{name}.min.js").write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            lines.append(f"{name} {manifest(modules, name)['version']} {digest}")
            print(lines[-1])
        (ASSETS / "LICENSES").write_text(notices(modules), encoding="utf-8")
        (ASSETS / "VERSIONS").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
