"""Packs recordings into the form in which the tests keep them: one zstd file for the spans, one for the events.

    python3 pack.py DIR ../fixtures/pydantic-ai --label v5,v6 --scenario i_nested c_inventory --starts

The bytes inside are those of the recording; the same recording gives the same file (with the same release of zstd).
"""

import argparse
import subprocess
from pathlib import Path

PARTS = {"spans.otlp.json": "spans.json.zst", "events.jsonl": "events.jsonl.zst"}
STARTS = {"starts.json": "starts.json.zst"}


def pack(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # No threads, no name, no time: nothing but the content decides the bytes.
    subprocess.run(["zstd", "-19", "--single-thread", "-q", "-f", source, "-o", target], check=True)
    target.chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("--label", help="comma-separated; all if not given")
    parser.add_argument("--scenario", nargs="*", help="all if not given")
    parser.add_argument("--starts", action="store_true", help="also what each span held when it started")
    options = parser.parse_args()

    labels = options.label and options.label.split(",")
    for recording in sorted(options.recordings.glob("*/*/")):
        scenario, label = recording.parent.name, recording.name
        if (labels and label not in labels) or (options.scenario and scenario not in options.scenario):
            continue
        for name, packed in (PARTS | STARTS if options.starts else PARTS).items():
            pack(recording / name, options.fixtures / scenario / f"{label}.{packed}")


if __name__ == "__main__":
    main()
