"""The site of the documentation is built strictly, by itself, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Whoever asks for something from elsewhere is refused.
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, **OFFLINE, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, site)
    assert done.returncode == 0, done.stderr
    return site


def test_every_page_is_there_and_can_be_reached(site: Path) -> None:
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    menu = re.findall(
        r'<a class="[^"]*reference internal[^"]*" href="([^"#]+)\.html', (site / "404.html").read_text("utf-8")
    )
    assert {page.lstrip("/") for page in menu} | {"index"} == pages
    assert all((site / f"{page}.html").exists() for page in pages)


def test_the_reference_has_a_row_for_a_key_of_each_kind_of_section(site: Path) -> None:
    text = (site / "configuration.html").read_text("utf-8")
    for key in (
        "elastiq-cluster_name",
        "quota-max_vms",
        "ec2-flavour",
        "ec2-subnet_id",
        "htcondor-drain",
        "schedule-when",
    ):
        assert f'<a id="{key}"></a>' in text, key
    assert "<!-- the keys -->" not in text


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(r'<link\b[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
        loaded += re.findall(r"url\(([^)]+)\)|@import\s+([^;]+)", text) if page.suffix == ".css" else []
        assert [one for one in loaded if re.match(r"['\"]?(https?:)?//", str(one))] == [], page


def test_markdown_that_is_not_understood_would_show(site: Path) -> None:
    """Outside of code no page has marks of Markdown left: a table or a list that was written in another dialect."""
    for page in site.glob("*.html"):
        text = re.sub(r"(?s)<(pre|code|script)\b.*?</\1>", "", page.read_text("utf-8"))
        assert re.findall(r"\|---|\]\(|\*\*|^- ", re.sub(r"<[^>]+>", "", text), re.MULTILINE) == [], page.name


@pytest.mark.parametrize("broken", ["[a page](nowhere.md)", "[a heading](decisions.md#nowhere)"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, broken: str) -> None:
    for name in ("docs", "packaging", "elastiq", "plugins"):
        shutil.copytree(
            ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".*cache")
        )
    for name in ("mkdocs.yml", "elastiq.conf.example"):
        shutil.copy(ROOT / name, tmp_path)
    index = tmp_path / "docs" / "index.md"
    index.write_text(index.read_text("utf-8") + f"\n{broken}\n", "utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
