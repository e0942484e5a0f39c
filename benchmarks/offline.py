"""Gathers the packages that a machine without a network lacks, as wheels in a folder: `make offline HAS=list.txt`.

    there:  python3 -m pip list --format=freeze > list.txt
    here:   make offline HAS=list.txt OFFLINE="--python 3.12 --cuda 13.0 --most 64"
    there:  python3 -m pip install --no-index --no-deps --find-links wheels --target site wheels/*.whl
            PYTHONPATH=site make gpu PYTHON=python3

Every requirement of this project and of its extras that the list does not satisfy is fetched, then what that requires,
and so on; versions are those of constraints.txt. A package that is on the list is taken to have all that it needs. A
line of the list may be a name without a version, which is taken to satisfy everything.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from benchmarks.side_by_side import ROOT

#: What `make gpu` imports beyond the plain dependencies.
EXTRAS = ("test", "hf", "adam8bit")
#: The oldest glibc that wheels are made for by name.
OLDEST_GLIBC = 5
#: A compiled library for one version of an accelerator's software, of which a package may hold many.
KERNELS = re.compile(r"_(cuda|rocm|xpu)(\d+)\.so$")

Has = dict[str, Version | None]


@dataclass(frozen=True)
class Target:
    """The machine that packages are gathered for.

    Attributes:
        has: its packages, by normal name; None for an unknown version.
        python: its version, "3.12".
        glibc: the version of its C library, "2.28" or newer machines' wheels are left out.
        machine: "x86_64" or "aarch64".
        cuda: "13.0": libraries for other versions are taken out of wheels; "": they stay.

    """

    has: Has
    python: str = "3.12"
    glibc: str = "2.28"
    machine: str = "x86_64"
    cuda: str = ""

    def markers(self, extra: str) -> dict[str, str]:
        """Return what environment markers of requirements ask for."""
        names = {"implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix"}
        names |= {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": self.machine}
        names |= {"python_version": self.python, "python_full_version": f"{self.python}.0"}
        return names | {"implementation_version": f"{self.python}.0", "extra": extra}

    def options(self) -> list[str]:
        """Return pip's options for its wheels."""
        newest = int(self.glibc.partition(".")[2])
        platforms = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, OLDEST_GLIBC - 1, -1)]
        platforms += [f"{old}_{self.machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
        chosen = ["--only-binary=:all:", "--implementation", "cp", "--python-version", self.python]
        return chosen + [word for platform in platforms for word in ("--platform", platform)]

    def satisfies(self, requirement: Requirement) -> bool:
        """Tell whether the machine has what is required."""
        name = canonicalize_name(requirement.name)
        if name not in self.has or requirement.extras:
            return False
        version = self.has[name]
        return version is None or requirement.specifier.contains(version, prereleases=True)


@dataclass
class Gathered:
    """The files and facts gathered on the way.

    Attributes:
        wheels: the file of each package that was fetched, by normal name.
        there: requirements that the machine satisfies.
        replaced: packages that it has in a version that does not do.

    """

    wheels: dict[str, Path] = field(default_factory=dict)
    there: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def read_list(text: str) -> Has:
    """Read what ``pip list --format=freeze`` has written; names alone, too.

    Raises:
        SystemExit: naming a line that is neither.

    """
    found: Has = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.split("#")[0].strip()
        if not line or line.startswith("-e "):
            continue
        name, _, version = line.partition("==")
        try:
            if " @ " in name:
                name, version = name.partition(" @ ")[0], ""
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise InvalidVersion
            found[canonicalize_name(name)] = Version(version) if version else None
        except InvalidVersion:
            raise SystemExit(f"line {number} of the list is neither NAME==VERSION nor NAME: {line!r}") from None
    return found


def required(extras: Sequence[str]) -> list[Requirement]:
    """Return the requirements of this project with some extras.

    Raises:
        SystemExit: for an unknown extra.

    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    for extra in extras:
        if extra not in known:
            raise SystemExit(f"there is no extra {extra!r}, only {', '.join(known)}")
    lines = [*project["dependencies"], *(line for extra in extras for line in known[extra])]
    return [Requirement(line) for line in lines]


def gather(requirements: Sequence[Requirement], target: Target, out: Path) -> Gathered:
    """Fetch what the machine lacks, and what that requires.

    Raises:
        SystemExit: if a package has no wheel for the machine, or two packages want different versions of a third.

    """
    found, waiting = Gathered(), list(requirements)
    while waiting:
        requirement = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        if target.satisfies(requirement):
            found.there.append(str(requirement))
            continue
        if name in found.wheels:
            version = parse_wheel_filename(found.wheels[name].name)[1]
            if not requirement.specifier.contains(version, prereleases=True):
                raise SystemExit(f"{name} {version} was gathered, and something else requires {requirement}")
            if not requirement.extras:
                continue
        else:
            found.wheels[name] = fetch(requirement, target, out)
            if name in target.has:
                version = parse_wheel_filename(found.wheels[name].name)[1]
                found.replaced.append(f"{name} {target.has[name] or '(version unknown)'}, replaced by {version}")
        waiting += requirements_of(found.wheels[name], requirement.extras, target)
    return found


def requirements_of(wheel: Path, extras: set[str], target: Target) -> Iterator[Requirement]:
    """Yield what a wheel requires on the machine."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        lines = Parser().parsestr(archive.read(name).decode("utf-8")).get_all("Requires-Dist") or []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise SystemExit(f"{wheel.name}: requires {line!r}, which cannot be read ({error})") from error
        asked = [target.markers(extra) for extra in ("", *sorted(extras))]
        if requirement.marker is None or any(requirement.marker.evaluate(names) for names in asked):
            yield requirement


def fetch(requirement: Requirement, target: Target, out: Path) -> Path:
    """Fetch a package's wheel; one that is published as source alone is built, if nothing is compiled.

    Raises:
        SystemExit: with what pip says, if that is not possible.

    """
    asked = f"{requirement.name}{requirement.specifier}"
    common = ["--no-deps", "--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")]
    with TemporaryDirectory(dir=out) as folder:
        done = pip("download", *common, *target.options(), "--dest", folder, asked)
        if done.returncode:  # no wheel for that machine: perhaps there are only sources
            done = pip("wheel", *common, "--wheel-dir", folder, asked)
        if done.returncode:
            raise SystemExit(f"{asked}: {done.stderr.strip().splitlines()[-1]}")
        (wheel,) = Path(folder).glob("*.whl")
        tags = parse_wheel_filename(wheel.name)[3]
        if not any(fits(tag.platform, target.machine) for tag in tags):
            raise SystemExit(f"{asked}: there is no wheel for {target.machine}, only what was built here: {wheel.name}")
        if target.cuda:
            without_other_kernels(wheel, target.cuda)
        return wheel.rename(out / wheel.name)


def fits(platform: str, machine: str) -> bool:
    """Tell whether a wheel's platform is that of a machine with Linux; one built here is not, if it was compiled."""
    return platform == "any" or (platform.startswith("manylinux") and platform.endswith(machine))


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter's pip."""
    return subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True)


def without_other_kernels(wheel: Path, cuda: str) -> None:
    """Leave libraries for other versions of CUDA, and for other makers' GPUs, out of a wheel.

    Raises:
        SystemExit: if it has some, and none for this version.

    """
    wanted = ("cuda", cuda.replace(".", ""))
    with zipfile.ZipFile(wheel) as archive:
        kinds = {info.filename: KERNELS.search(info.filename) for info in archive.infolist()}
        dropped = {name for name, kind in kinds.items() if kind and kind.groups() != wanted}
        if not dropped:
            return
        if not any(kind and kind.groups() == wanted for kind in kinds.values()):
            raise SystemExit(f"{wheel.name}: holds no library for CUDA {cuda}, only {', '.join(sorted(dropped))}")
        smaller = wheel.with_suffix(".tmp")
        with zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as kept:
            for info in archive.infolist():
                if info.filename in dropped:
                    continue
                content = archive.read(info)
                if info.filename.endswith(".dist-info/RECORD"):
                    content = without_rows(content, dropped)
                kept.writestr(info, content, zipfile.ZIP_DEFLATED)
    smaller.replace(wheel)


def without_rows(record: bytes, names: set[str]) -> bytes:
    """Leave files out of a wheel's table of contents."""
    rows = [row for row in csv.reader(io.StringIO(record.decode("utf-8"))) if row and row[0] not in names]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def own_wheel(out: Path) -> Path:
    """Build this project's wheel, by which its corpus readers are found.

    Raises:
        SystemExit: with what pip says, if that fails.

    """
    done = pip("wheel", "--no-deps", "--quiet", "--disable-pip-version-check", "--wheel-dir", str(out), str(ROOT))
    if done.returncode:
        raise SystemExit(f"{ROOT}: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = out.glob("dragoman-*.whl")
    return wheel


def main() -> None:
    """Gather, and say what and how much it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--has", type=Path, required=True, help="what pip list --format=freeze says on that machine")
    parser.add_argument("--out", type=Path, default=ROOT / "wheels", help="folder; wheels that are in it are deleted")
    parser.add_argument("--extras", nargs="*", default=EXTRAS, help=f"of pyproject.toml; default: {' '.join(EXTRAS)}")
    parser.add_argument("--without", nargs="*", default=[], metavar="PACKAGE", help="packages to leave out")
    parser.add_argument("--python", default="3.12", help="the version there")
    parser.add_argument("--glibc", default="2.28", help="the C library's version there, or an older one")
    parser.add_argument("--machine", default="x86_64", choices=["x86_64", "aarch64"])
    parser.add_argument("--cuda", default="", help="its version there: leave out libraries for others")
    parser.add_argument("--most", type=float, default=0, metavar="MIB", help="exit code 1 if it is more than this")
    given = parser.parse_args()
    has = read_list(given.has.read_text(encoding="utf-8"))
    has |= dict.fromkeys(map(canonicalize_name, given.without))
    target = Target(has, given.python, given.glibc, given.machine, given.cuda)
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob("*.whl"):
        old.unlink()
    found = gather(required(given.extras), target, given.out)
    wheels = sorted([*found.wheels.values(), own_wheel(given.out)], key=lambda path: -path.stat().st_size)
    size = sum(path.stat().st_size for path in wheels) / 2**20
    for path in wheels:
        print(f"{path.stat().st_size / 2**20:8.2f} MiB  {path.name}")
    for line in found.replaced:
        print(f"the version there does not do: {line}")
    print(f"{size:8.2f} MiB in {len(wheels)} wheels in {given.out}; {len(found.there)} requirements are there already")
    if given.most and size > given.most:
        raise SystemExit(f"{size:.2f} MiB are more than the {given.most:g} MiB that --most allows")


if __name__ == "__main__":
    main()
