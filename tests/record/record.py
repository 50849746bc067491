"""Records what Pydantic AI exports side by side with what the official Failproof adapter emits for the same run.

    python record.py --out DIR [--scenario NAME ...] [--label v5,v2 ...] [--set all|e2e] [--skip-existing]
    python record.py --out DIR --set e2e --endpoint-grpc 127.0.0.1:4317 [--endpoint-http http://127.0.0.1:4318]
    python record.py --list

DIR/<scenario>/<label>/ receives spans.otlp.json, spans.otlp.pb, events.jsonl, starts.json and meta.json.
Every (scenario, label) runs in a child of its own, forked from a parent that has imported Pydantic AI and nothing that
holds state, so no recording can see another's globals.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
SERVICE = "inventory-bot"
DEPLOYMENT = "test"
LABELS = ("v2", "v3", "v4", "v5", "v6")
EXTRA_LABELS = (
    "v5-nocontent", "v2-nocontent", "v6-nocontent", "v5-nocontent-fullevents", "v5-noagg", "v5-noparams",
    "v5-nobinary", "logfire", "logfire-nocontent", "openinference", "openinference-v2", "openinference-nocontent",
)
SCENARIO_TIMEOUT = 60.0

# ---------------------------------------------------------------------------
# Paths of this machine. They are rewritten while a traceback is FORMATTED, not afterwards: the adapter cuts tracebacks
# to a length, and a rewrite after the cut would move the cut.
# ---------------------------------------------------------------------------


def _prefixes() -> list[tuple[str, str]]:
    pairs = {str(HERE): "/app"}
    for prefix in {sys.prefix, os.path.realpath(sys.prefix)}:
        if prefix != sys.base_prefix:
            pairs[prefix] = "/app/.venv"
    for prefix in {sys.base_prefix, os.path.realpath(sys.base_prefix)}:
        if prefix not in ("/usr", "/usr/local"):
            pairs[prefix] = "/usr/local"
    home = os.path.expanduser("~")
    if home not in ("", "/", "~"):
        pairs.setdefault(home, "/home/app")
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))


PREFIXES = _prefixes()


def neutral(text: str) -> str:
    for real, shown in PREFIXES:
        if real in text:
            text = re.sub(re.escape(real) + r"(?=[/\"'\s]|$)", shown, text)
    return text


def neutral_tracebacks() -> None:
    original = traceback.StackSummary.format_frame_summary

    def format_frame_summary(self, frame_summary, **kwargs):
        return neutral(original(self, frame_summary, **kwargs))

    traceback.StackSummary.format_frame_summary = format_frame_summary


# ---------------------------------------------------------------------------
# Labels
# ---------------------------------------------------------------------------


class Label:
    """`v5`, `v2-nocontent`, `logfire`, `openinference-v2`, …: how the run is instrumented."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.version = 5
        self.kind = "plain"
        self.include_content = True  # of the OpenTelemetry instrumentation
        self.capture_content = True  # of the adapter
        self.aggregated = True
        self.binary = True
        self.params = True
        for word in text.split("-"):
            if re.fullmatch(r"v[2-6]", word):
                self.version = int(word[1:])
            elif word in ("logfire", "openinference"):
                self.kind = word
            elif word == "nocontent":
                self.include_content = False
                self.capture_content = False
            elif word == "fullevents":
                self.capture_content = True
            elif word == "noagg":
                self.aggregated = False
            elif word == "nobinary":
                self.binary = False
            elif word == "noparams":
                self.params = False
            else:
                raise SystemExit(f"record.py: no label {text!r}")

    def settings(self) -> dict:
        return {
            "version": self.version,
            "include_content": self.include_content,
            "include_binary_content": self.binary,
            "include_model_request_parameters": self.params,
            "use_aggregated_usage_attribute_names": self.aggregated,
        }


# ---------------------------------------------------------------------------
# Spans
# ---------------------------------------------------------------------------


def _plain(value):
    return list(value) if isinstance(value, (tuple, list)) else value


def make_recorder():
    from opentelemetry.sdk.trace import SpanProcessor

    class Recorder(SpanProcessor):
        """Keeps ended spans in the order of their end, and each span's attributes as they were at its start."""

        def __init__(self) -> None:
            self.starts: list[dict] = []
            self.spans: list = []

        def on_start(self, span, parent_context=None) -> None:
            context = span.get_span_context()
            self.starts.append(
                {
                    "order": len(self.starts),
                    "traceId": f"{context.trace_id:032x}",
                    "spanId": f"{context.span_id:016x}",
                    "parentSpanId": f"{span.parent.span_id:016x}" if span.parent else None,
                    "name": span.name,
                    "kind": span.kind.name,
                    "startTimeUnixNano": str(span.start_time),
                    "attributes": {key: _plain(value) for key, value in (span.attributes or {}).items()},
                }
            )

        def on_end(self, span) -> None:
            self.spans.append(span)

    return Recorder()


HIDDEN_RESOURCE = {
    "host.name": "build-1",
    "host.id": "0123456789abcdef0123456789abcdef",
    "os.version": "6.1.0",
    "process.owner": "app",
    "process.command": "record.py",
    "process.command_line": "record.py",
    "process.executable.path": "/app/.venv/bin/python",
}


def encode(spans):
    """The spans as one ExportTraceServiceRequest, with this machine's names taken out."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    request = encode_spans(spans)

    def scrub(attributes) -> None:
        for attribute in attributes:
            if attribute.value.HasField("string_value"):
                text = neutral(attribute.value.string_value)
                if text != attribute.value.string_value:
                    attribute.value.string_value = text

    for resource_spans in request.resource_spans:
        for attribute in resource_spans.resource.attributes:
            if attribute.key in HIDDEN_RESOURCE and attribute.value.HasField("string_value"):
                attribute.value.string_value = HIDDEN_RESOURCE[attribute.key]
        scrub(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                scrub(span.attributes)
                for event in span.events:
                    scrub(event.attributes)
    return request


def to_otlp_json(request) -> str:
    """OTLP/JSON: hex ids, integer enums, 64-bit integers as strings."""
    import base64

    from google.protobuf.json_format import MessageToDict

    message = MessageToDict(request, use_integers_for_enums=True) or {"resourceSpans": []}

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("traceId", "spanId", "parentSpanId") and isinstance(value, str):
                    node[key] = base64.b64decode(value).hex()
                else:
                    walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(message)
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


class Checked:
    """A real OTLP exporter that remembers what became of its batches."""

    def __init__(self, exporter) -> None:
        self.exporter = exporter
        self.sent = 0
        self.failed = 0

    def export(self, spans):
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self.exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self.exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self.exporter.force_flush(timeout_millis)


def endpoint_processors(args) -> dict:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    headers = {}
    for header in args.header:
        name, _, value = header.partition("=")
        headers[name.strip().lower()] = value.strip()
    found = {}
    if args.endpoint_grpc:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        found["grpc"] = Checked(
            OTLPSpanExporter(endpoint=args.endpoint_grpc, insecure=True, headers=tuple(headers.items()), timeout=10)
        )
    if args.endpoint_http:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        url = args.endpoint_http.rstrip("/")
        if not url.endswith("/v1/traces"):
            url += "/v1/traces"
        found["http"] = Checked(OTLPSpanExporter(endpoint=url, headers=headers, timeout=10))
    return {name: (checked, BatchSpanProcessor(checked)) for name, checked in found.items()}


# ---------------------------------------------------------------------------
# One recording, inside its own process
# ---------------------------------------------------------------------------


def describe(value) -> str:
    """What the caller saw, in one line."""
    output = getattr(value, "output", value)
    if isinstance(value, (list, tuple)) or type(output).__name__ == "DeferredToolRequests" or output is value:
        return f"OK {output}"
    return f"OK {type(output).__name__}: {output}"


def raised(error: BaseException) -> str:
    kind = type(error)
    return f"RAISED {kind.__module__}.{kind.__qualname__}: {error}"


def run_scenario(scenario, env):
    function = scenario.function
    try:
        if inspect.iscoroutinefunction(function):

            async def main():
                try:
                    return await function(env)
                finally:
                    # A cancelled run's children unwind a few turns of the loop later.
                    try:
                        await asyncio.sleep(0.05)
                    except asyncio.CancelledError:
                        pass

            seen = asyncio.run(main())
        else:
            seen = function(env)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are scenarios too.
        return raised(error)
    if isinstance(seen, scenario.module.Many):
        return [one if isinstance(one, str) else describe(one) for one in seen]
    return seen if isinstance(seen, str) else describe(seen)


def record(scenario, label: Label, args) -> dict:
    neutral_tracebacks()
    warnings.simplefilter("ignore")
    directory = Path(args.out) / scenario.name / label.text
    spool = directory / ".spool"
    shutil.rmtree(directory, ignore_errors=True)
    spool.mkdir(parents=True)
    # Nothing of the machine's own configuration reaches a recording.
    for name in list(os.environ):
        if name.startswith(("OTEL_", "LOGFIRE_", "FAILPROOF", "AGENTEYE_")):
            del os.environ[name]
    os.environ["FAILPROOFAI_HOME"] = str(spool)

    import failproofai_sdk
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from pydantic_ai import Agent, InstrumentationSettings

    failproofai_sdk.configure(base_dir=str(spool), flush_interval=3600)
    recorder = make_recorder()
    endpoints = endpoint_processors(args)
    processors = [recorder, *(processor for _, processor in endpoints.values())]
    if label.kind == "logfire":
        import logfire

        logfire.configure(
            send_to_logfire=False, console=False, service_name=SERVICE, additional_span_processors=processors,
            inspect_arguments=False,
        )
        logfire.instrument_pydantic_ai(
            include_content=label.include_content, include_binary_content=label.binary, version=label.version
        )
        provider = trace.get_tracer_provider()
    else:
        provider = TracerProvider(
            resource=Resource.create({"service.name": SERVICE, "deployment.environment.name": DEPLOYMENT})
        )
        if label.kind == "openinference":
            from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

            provider.add_span_processor(OpenInferenceSpanProcessor())
        for processor in processors:
            provider.add_span_processor(processor)
        trace.set_tracer_provider(provider)
        settings = InstrumentationSettings(tracer_provider=provider, **label.settings())
        Agent.instrument_all(settings)
        from pydantic_ai import Embedder

        Embedder.instrument_all(settings)
    failproofai_sdk.instrument("pydantic_ai", capture_content=label.capture_content)

    env = scenario.module.Env(
        tracer=provider.get_tracer("my.app", "1.0"), label=label.text, version=label.version,
        content=label.include_content,
    )
    seen = run_scenario(scenario, env)

    failproofai_sdk._writer.flush_now()
    provider.force_flush()
    # The spool names its batches by the time, so their names' order is the order of the events.
    lines = b"".join(path.read_bytes() for path in sorted(spool.rglob("*.jsonl"), key=lambda path: path.name))
    shutil.rmtree(spool)
    text = neutral(lines.decode("utf-8"))
    request = encode(recorder.spans)
    (directory / "events.jsonl").write_text(text, encoding="utf-8")
    (directory / "spans.otlp.pb").write_bytes(request.SerializeToString())
    (directory / "spans.otlp.json").write_text(to_otlp_json(request), encoding="utf-8")
    (directory / "starts.json").write_text(neutral(json.dumps(recorder.starts, indent=1)) + "\n", encoding="utf-8")
    meta = {
        "scenario": scenario.name,
        "label": label.text,
        "doc": scenario.doc,
        "capture_content": label.capture_content,
        "caller_saw": [neutral(one) for one in seen] if isinstance(seen, list) else neutral(seen),
        "n_spans": len(recorder.spans),
        "n_started": len(recorder.starts),
        "n_events": sum(1 for line in text.split("\n") if line),
    }
    if endpoints:
        provider.shutdown()
        meta["exported"] = {name: {"sent": c.sent, "failed": c.failed} for name, (c, _) in endpoints.items()}
    (directory / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    return meta


def child(scenario, label_text: str, args) -> int:
    try:
        meta = record(scenario, Label(label_text), args)
    except BaseException:
        traceback.print_exc()
        return 1
    if any(end["failed"] or end["sent"] != meta["n_spans"] for end in meta.get("exported", {}).values()):
        print(f"record.py: {scenario.name}/{label_text}: not everything was exported: {meta['exported']}", file=sys.stderr)
        return 2
    return 0


# ---------------------------------------------------------------------------
# The parent
# ---------------------------------------------------------------------------


def spawn(scenario, label: str, args) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = child(scenario, label, args)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return pid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="directory to record into")
    parser.add_argument("--scenario", nargs="*", default=[], help="names; the default is every one of --set")
    parser.add_argument("--label", action="append", default=[], help=f"comma-separated: {','.join(LABELS + EXTRA_LABELS)}")
    parser.add_argument("--set", dest="subset", default="all", choices=("all", "e2e"), help="which scenarios")
    parser.add_argument("--endpoint-grpc", metavar="HOST:PORT", help="export to this OTLP/gRPC receiver as well")
    parser.add_argument("--endpoint-http", metavar="URL", help="export to this OTLP/HTTP receiver as well")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with every export")
    parser.add_argument("--skip-existing", action="store_true", help="leave recordings that are already there")
    parser.add_argument("--jobs", type=int, default=1, help="recordings at a time")
    parser.add_argument("--list", action="store_true", help="print the scenarios and stop")
    args = parser.parse_args()

    sys.path.insert(0, str(HERE))
    warnings.simplefilter("ignore")
    import scenarios

    scenarios.warm_up()
    table = scenarios.SCENARIOS
    if args.list:
        for scenario in table.values():
            print(f"{'e2e ' if scenario.e2e else '    '}{scenario.name}: {scenario.doc}")
        return 0
    if not args.out:
        parser.error("--out is needed")
    unknown = [name for name in args.scenario if name not in table]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}")
    names = args.scenario or [name for name, one in table.items() if args.subset == "all" or one.e2e]
    labels = [label for group in (args.label or ["v5"]) for label in group.split(",") if label]
    for label in labels:
        Label(label)

    todo = [(table[name], label) for label in labels for name in names]
    if args.skip_existing:
        todo = [(one, label) for one, label in todo if not (Path(args.out) / one.name / label / "meta.json").exists()]
    failures, running, started = [], {}, time.monotonic()
    queue = list(todo)
    while queue or running:
        while queue and len(running) < max(1, args.jobs):
            scenario, label = queue.pop(0)
            running[spawn(scenario, label, args)] = (scenario, label, time.monotonic())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            scenario, label, _ = running.pop(pid)
            if status:
                failures.append(f"{scenario.name}/{label}")
            continue
        for pid, (scenario, label, since) in list(running.items()):
            if time.monotonic() - since > SCENARIO_TIMEOUT:
                print(f"record.py: {scenario.name}/{label} hangs", file=sys.stderr)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                running.pop(pid)
                failures.append(f"{scenario.name}/{label}")
        time.sleep(0.005)
    print(f"{len(todo) - len(failures)} recorded, {len(failures)} failed, {time.monotonic() - started:.1f} s")
    for failure in failures:
        print(f"failed: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
