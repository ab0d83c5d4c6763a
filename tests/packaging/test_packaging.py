from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCES = ["pyproject.toml", "README.md", "LICENSE", "blobcp", "stores", "migrations", "tests"]

WHERE = """
import blobcp, blobcp.errors, blobcp.stores, blobcp.migrations
from blobcp.stores import FileStore, MapStore
assert FileStore.__module__ == "blobcp.stores.file.store"
for module in (blobcp, blobcp.stores, blobcp.migrations):
    print(module.__file__)
"""

FOREIGN = """
import importlib.util
print([name for name in ("stores", "migrations", "tests", "benchmarks", "examples") if importlib.util.find_spec(name)])
"""


@pytest.fixture(scope="module", params=[True, False], ids=["links", "no-links"])
def checkout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources; without its links it is what a system that knows no links checks out."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in filter(lambda name: (ROOT / name).exists(), SOURCES):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    if not request.param:
        (copy / "blobcp" / "stores").unlink()
        (copy / "blobcp" / "migrations").unlink()
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``pip install .`` installs."""
    return build("build_wheel", checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel."""
    return install(wheel, tmp_path_factory.mktemp("wheel-venv"))


@pytest.fixture(scope="module")
def editable(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with what ``pip install -e .`` installs."""
    wheel = build("build_editable", checkout, tmp_path_factory.mktemp("editable"))
    return install(wheel, tmp_path_factory.mktemp("editable-venv"))


def build(hook: str, checkout: Path, target: Path) -> Path:
    """Call the build hook that pip calls, without pip's download of setuptools."""
    code = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    run([sys.executable, "-c", code, str(target)], checkout)
    [wheel] = target.glob("*.whl")
    return wheel


def install(wheel: Path, venv: Path) -> Path:
    """Make an environment with the wheel and, by a path, the libraries that this interpreter has."""
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], venv)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "--quiet"]
    run([*pip, str(wheel)], venv)
    [site_packages] = venv.glob("lib/python*/site-packages")
    # A path in a .pth file brings the libraries, and leaves out what editable installs there would add.
    (site_packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def run(command: list[str], cwd: Path) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_one_top_level_name(wheel: Path) -> None:
    """The wheel holds the package and its metadata, and nothing of the tests."""
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.partition("/")[0] for name in names} == {"blobcp", "blobcp-0.1.0.dist-info"}


def test_the_wheel_has_every_module(wheel: Path, checkout: Path) -> None:
    """Each source file of the three folders is in the wheel under the name that it is imported by."""
    folders = {"blobcp": "blobcp", "blobcp/stores": "stores", "blobcp/migrations": "migrations"}
    sources = {
        f"{package}/{path.relative_to(checkout / folder).as_posix()}"
        for package, folder in folders.items()
        for path in (checkout / folder).rglob("*")
        if path.is_file() and path.suffix in {".py", ".typed"}
    }

    names = zipfile.ZipFile(wheel).namelist()

    assert {name for name in names if name.startswith("blobcp/")} == sources
    assert "blobcp/py.typed" in sources
    assert "blobcp-0.1.0.dist-info/licenses/LICENSE" in names


@pytest.mark.parametrize("environment", ["installed", "editable"])
def test_imports_from_anywhere(
    environment: str, checkout: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The package and both folders can be imported from another folder, and bring no other name with them."""
    python = request.getfixturevalue(environment)

    places = run([python, "-c", WHERE], tmp_path).split()

    home = checkout if environment == "editable" else python.parent.parent
    assert [Path(place).is_relative_to(home) for place in places] == [True, True, True]
    assert run([python, "-c", FOREIGN], tmp_path) == "[]\n"


@pytest.mark.parametrize("environment", ["installed", "editable"])
def test_imports_in_the_checkout(environment: str, checkout: Path, request: pytest.FixtureRequest) -> None:
    """In the checkout's root, which then comes first on sys.path, both folders are found as well."""
    python = request.getfixturevalue(environment)
    if environment == "installed" and not (checkout / "blobcp" / "stores").exists():
        pytest.skip("a checkout without links hides the installed wheel; an editable install is needed there")

    places = run([python, "-c", WHERE], checkout).split()

    assert [Path(place).is_relative_to(checkout) for place in places] == [True, True, True]
    assert len(run([python, "-P", "-c", WHERE], checkout).split()) == 3


def test_the_links_lead_to_the_folders() -> None:
    """The links that make the checkout one package are there, and relative."""
    for name in ("stores", "migrations"):
        link = ROOT / "blobcp" / name

        assert link.readlink() == Path("..", name)
