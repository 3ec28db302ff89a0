"""What scripts/nto.sh compares: explanations, and the files that they are of."""

import base64
import json
import os
import re
import sys
import urllib.parse

try:
    import yaml
except ImportError:
    yaml = None

work, golden, expected_file = sys.argv[1:]
otherwise = []


def cores(text):
    """A list such as 0-3,8 as a set; none if it is no list."""
    found = set()
    for part in text.split(","):
        ends = part.split("-")
        if not all(end.isdigit() for end in ends) or len(ends) > 2:
            return None
        found.update(range(int(ends[0]), int(ends[-1]) + 1))
    return found


def leaves(value):
    """How many leaves are below: an empty map or list is one."""
    if isinstance(value, dict) and value:
        return sum(leaves(inner) for inner in value.values())
    if isinstance(value, list) and value:
        return sum(leaves(inner) for inner in value)
    return 1


def plain(text):
    """Lines that are neither empty nor comments."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and line[0] not in "#;"]


def sectioned(text):
    """The same without heads of sections."""
    return [line for line in plain(text) if not (line[0] == "[" and line[-1] == "]")]


def of_tuned(text):
    """Options of a profile; of a command line each argument."""
    count = 0
    for line in sectioned(text):
        words = line.split("=", 1)[1].lstrip("+").split() if line.startswith("cmdline") else []
        count += len(words) or 1
    return count


def of_unit(text):
    """Options of a unit; one that ends in a backslash goes on."""
    return sum(not line.endswith("\\") for line in sectioned(text))


def of_file(path, text):
    """Lines of a file within a MachineConfig; none where only some of them count."""
    if path.endswith("openshift-workload-pinning"):
        return leaves(json.loads(text))
    if text.startswith("#!"):
        return None
    if "/systemd/system/" in path:
        return of_unit(text)
    if "crio.conf.d" in path or "/sysctl.d/" in path:
        return len(sectioned(text))
    return len(plain(text))


def decoded(url):
    head, data = url.split(",", 1)
    data = urllib.parse.unquote_to_bytes(data)
    return (base64.b64decode(data) if head.endswith(";base64") else data).decode()


def inner(document):
    """Lines of texts within an object, and how many scripts there are, which are counted apart."""
    count, scripts = 0, []
    spec = document.get("spec") or {}
    if document["kind"] == "Tuned":
        # A text is lines in place of one leaf.
        count += sum(of_tuned(one["data"]) - 1 for one in spec["profile"])
    if document["kind"] == "MachineConfig":
        for one in spec["config"].get("storage", {}).get("files", []):
            lines = of_file(one["path"], decoded(one["contents"]["source"]))
            if lines is None:
                scripts.append(one["path"])
            count += lines or 0
        for one in spec["config"].get("systemd", {}).get("units", []):
            count += of_unit(one.get("contents", ""))
    return count, scripts


def check_whole(name, lines, path):
    with open(path) as file:
        documents = [one for one in yaml.safe_load_all(file) if one]
    wanted, scripts = 0, []
    for document in documents:
        more, found = inner(document)
        wanted += leaves(document) + more
        scripts += found
    of_script = [line for line in lines if re.match(r"\S+: line \d+$", line["place"]) and line["place"].split(":")[0] in scripts]
    if len(lines) - len(of_script) != wanted:
        otherwise.append(("whole", name, f"{len(lines) - len(of_script)} lines and not {wanted}"))
    for script in scripts:
        if not any(line["place"].startswith(script + ": line") for line in of_script):
            otherwise.append(("whole", name, f"{script} changes nothing"))


def check_profile(profile, folder):
    """Values of a PerformanceProfile, in what was made of it."""
    texts = {}
    for line in profile:
        texts.setdefault(line["place"], []).append(line["value"])
    one = lambda place: texts.get(place, [""])[0]
    made = {}
    for json_file, path in files:
        if os.path.dirname(path) == folder:
            with open(json_file) as file:
                for line in json.load(file):
                    made.setdefault(line["place"].split(": ")[-1], []).append(line["value"])
    name = os.path.relpath(folder, golden)

    def wants(place, what, fits):
        if not any(fits(value) for value in made.get(place, [])):
            otherwise.append(("profile", name, f"{what}: {place} is {made.get(place)}"))

    same = lambda wanted: lambda value: cores(value.strip('"')) == cores(wanted)
    wants("[variables] isolated_cores", "cpu.isolated", same(one("cpu.isolated")))
    wants("reservedSystemCPUs", "cpu.reserved", same(one("cpu.reserved")))
    wants("[crio.runtime] infra_ctr_cpuset", "cpu.reserved", same(one("cpu.reserved")))
    if one("cpu.offlined"):
        offline = "OFFLINE_CPUS=" + ",".join(map(str, sorted(cores(one("cpu.offlined")))))
        wants("[Service] Environment", "cpu.offlined", lambda value: value == offline)
    if one("numa.topologyPolicy"):
        wants("topologyManagerPolicy", "numa.topologyPolicy", lambda value: value == one("numa.topologyPolicy"))
    size = one("hugepages.defaultHugepagesSize")
    wants("[bootloader] cmdline_hugepages", "defaultHugepagesSize", lambda value: value == "default_hugepagesz=" + size)
    kernel = {"true": "realtime"}.get(one("realTimeKernel.enabled"), "default")
    kernel = "64k-pages" if one("kernelPageSize") == "64k" else kernel
    wants("kernelType", "realTimeKernel.enabled", lambda value: value == kernel)
    real_time = one("workloadHints.realTime") != "false"
    stalld = "start,enable" if real_time else "stop,disable"
    wants("[service] service.stalld", "workloadHints.realTime", lambda value: value == stalld)


with open(os.path.join(work, "files")) as file:
    files = [line.split() for line in file]
total = 0
for json_file, path in files:
    name = os.path.relpath(path, golden)
    with open(json_file) as file:
        lines = json.load(file)
    total += len(lines)
    for line in lines:
        if line["what"] is None:
            otherwise.append(("known", name, line["place"]))
    if yaml:
        check_whole(name, lines, path)
if not yaml:
    print("nto: whole: left out: Python has no yaml (python3-yaml)", file=sys.stderr)
if os.path.exists(os.path.join(work, "profiles")):
    with open(os.path.join(work, "profiles")) as file:
        for line in file:
            profile, folder = line.split()
            with open(profile) as found:
                check_profile(json.load(found), folder)

expected = []
with open(expected_file) as file:
    for line in file:
        words = line.split("#")[0].split(None, 2)
        if words:
            expected.append([word.strip() for word in words])
fits = lambda wanted, one: one[0] == wanted[0] and one[1].endswith(wanted[1]) and one[2].startswith(wanted[2])
new = [one for one in otherwise if not any(fits(wanted, one) for wanted in expected)]
gone = [wanted for wanted in expected if not any(fits(wanted, one) for one in otherwise)]
for one in new:
    print("nto: otherwise:", *one)
for wanted in gone:
    print("nto: is not otherwise any more:", *wanted)
print(f"nto: {len(files)} files, {total} lines: {len(otherwise)} otherwise, of which {len(otherwise) - len(new)} are expected")
sys.exit(1 if new or gone else 0)
