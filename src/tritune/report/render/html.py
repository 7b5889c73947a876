"""A document as one HTML page that needs nothing else: no network, no second file, no server."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tritune import __version__
from tritune.report.content.document import Document

LIBRARIES = ("vega", "vega-lite", "vega-embed")


def html(document: Document) -> str:
    """The page as text, to be written as UTF-8 with line feeds as they are.

    Every text is escaped by the template. Its content security policy allows exactly the scripts that are
    in it, by their SHA-256, and no connection at all: a name that found a way through the escaping could
    still not run. Charts are drawn by the vendored Vega with its interpreter, so `eval` stays forbidden.
    """
    scripts = [_asset(f"{name}.min.js") for name in LIBRARIES]
    scripts.append(_template("report.js"))
    page = _environment().get_template("report.html.j2")
    return page.render(
        document=document,
        version=__version__,
        # The files are ours and hold no "</script"; a test and scripts/vendor_js.py see to that.
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        style=Markup(_template("report.css")),  # noqa: S704
        script_sources=" ".join(f"'{source_hash(script)}'" for script in scripts),
    )


def source_hash(script: str) -> str:
    """What a content security policy calls an inline script of this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tritune.report.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> str:
    return files("tritune.report").joinpath("assets", name).read_text(encoding="utf-8")


def _template(name: str) -> str:
    return files("tritune.report.render").joinpath("templates", name).read_text(encoding="utf-8")
