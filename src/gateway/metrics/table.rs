//! `/metrics`: what is counted, as OpenMetrics has it, a row of [`TABLE`] for each name.
//!
//! A value is read when it is asked for. Labels are few whatever anybody sends: transports, kinds of refusal, types of
//! event, dialects, sinks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, fs};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::{Metrics, Transport};
use crate::count::Histogram;
use crate::sink::{Progress, QueueStatus};

/// How the text is written.
pub(in super::super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One metric.
struct Row {
    /// Without what its unit and its type add.
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    values: Values,
}

/// Where its values come from, each with its labels.
enum Values {
    Counter(fn(&Metrics) -> Vec<(Labels, u64)>),
    Gauge(fn(&Metrics) -> Vec<(Labels, f64)>),
    Histogram(fn(&Metrics) -> Vec<(Labels, &Histogram)>),
}

type Labels = Vec<(&'static str, String)>;

use Unit::{Bytes, Seconds};
use Values::{Counter, Gauge, Histogram as Times};

/// All metrics. A new one is a row here and in the README.
const TABLE: [Row; 29] = [
    row("failproof_build_info", None, "The version that runs", Gauge(|_| vec![(version(), 1.0)])),
    row(
        "failproof_ready",
        None,
        "Whether requests can be taken, as /readyz says",
        Gauge(|metrics| one(f64::from(metrics.hindrances().is_empty()))),
    ),
    row("failproof_requests", None, "Requests by what became of them: accepted, or why not", Counter(requests)),
    row("failproof_request_duration", Some(Seconds), "From the head of a request to its answer", Times(durations)),
    row(
        "failproof_request_body",
        Some(Bytes),
        "Bodies as they arrived, packed or not",
        Counter(|metrics| one(metrics.body_bytes.load(Relaxed))),
    ),
    row(
        "failproof_requests_in_flight",
        None,
        "Requests that are not answered yet",
        Gauge(|metrics| one(metrics.in_flight.load(Relaxed) as f64)),
    ),
    row(
        "failproof_in_flight",
        Some(Bytes),
        "Bodies that are being unpacked and read",
        Gauge(|metrics| one(metrics.in_flight_bytes.load(Relaxed) as f64)),
    ),
    row(
        "failproof_connections",
        None,
        "Open connections",
        Gauge(|metrics| one(metrics.connections.load(Relaxed) as f64)),
    ),
    row(
        "failproof_spans",
        None,
        "Spans: accepted, rejected because they can never be taken, lost to a bound",
        Counter(spans),
    ),
    row("failproof_journal", Some(Bytes), "Size of the journal", Gauge(|metrics| one(metrics.journal.bytes() as f64))),
    row(
        "failproof_journal_files",
        None,
        "Files of the journal",
        Gauge(|metrics| one(metrics.journal.file_count() as f64)),
    ),
    row(
        "failproof_journal_sync_duration",
        Some(Seconds),
        "Appends to the journal until they are safe, each for all that had arrived",
        Times(|metrics| one(metrics.journal.syncs())),
    ),
    row(
        "failproof_traces_waiting",
        None,
        "Traces with spans that are not told yet",
        Gauge(|metrics| one(metrics.delivered.traces_waiting.load(Relaxed) as f64)),
    ),
    row(
        "failproof_waiting",
        Some(Bytes),
        "Memory that waiting traces take, roughly",
        Gauge(|metrics| one(metrics.delivered.bytes_waiting.load(Relaxed) as f64)),
    ),
    row("failproof_events", None, "Events that were made, by type and by the dialect of their span", Counter(events)),
    row(
        "failproof_events_truncated",
        None,
        "Events that lost something to a limit (fw_truncated)",
        Counter(|metrics| one(metrics.delivered.events_truncated.load(Relaxed))),
    ),
    row(
        "failproof_event_delay",
        Some(Seconds),
        "From the last span of a trace to its events in the sink",
        Times(|metrics| one(&metrics.delivered.delay)),
    ),
    row(
        "failproof_sink_events",
        None,
        "Events that a sink took",
        Counter(|metrics| of_sink(metrics, metrics.delivered.sink.events())),
    ),
    row(
        "failproof_sink_write_duration",
        Some(Seconds),
        "Writes to a sink until they are safe, or fail",
        Times(|metrics| of_sink(metrics, metrics.delivered.sink.writes())),
    ),
    row(
        "failproof_sink_failures",
        None,
        "Writes that failed",
        Counter(|metrics| of_sink(metrics, metrics.delivered.sink.failures())),
    ),
    row(
        "failproof_sink_retries",
        None,
        "Writes of what had failed",
        Counter(|metrics| of_sink(metrics, metrics.delivered.sink.retries())),
    ),
    row(
        "failproof_sink_lag",
        Some(Seconds),
        "Age of the oldest thing that a sink has not taken",
        Gauge(|metrics| of_sink(metrics, metrics.delivered.sink.lag().as_secs_f64())),
    ),
    row(
        "failproof_queue_batches",
        None,
        "Batches in a queue on disk: sent, tried again, parked because they were refused for good",
        Counter(|metrics| {
            by_queue_and(metrics, "result", |queue| {
                [("sent", queue.sent), ("retried", queue.retried), ("parked", queue.parked)]
            })
        }),
    ),
    row(
        "failproof_queue_lost_events",
        None,
        "Events that a full queue did not take while other sinks did",
        Counter(|metrics| by_queue(metrics, |queue| queue.lost)),
    ),
    row(
        "failproof_queue",
        Some(Bytes),
        "Bytes on disk that wait to be sent, or are parked",
        Gauge(|metrics| {
            by_queue_and(metrics, "state", |queue| {
                [("waiting", queue.waiting_bytes as f64), ("parked", queue.parked_bytes as f64)]
            })
        }),
    ),
    row(
        "failproof_queue_lag",
        Some(Seconds),
        "Age of the oldest batch that waits to be sent",
        Gauge(|metrics| by_queue(metrics, |queue| queue.oldest.unwrap_or_default().as_secs_f64())),
    ),
    row(
        "failproof_warnings",
        None,
        "How often each kind of trouble came up that the log tells once",
        Counter(|_| {
            crate::once::counts().into_iter().map(|(kind, count)| (vec![("kind", kind.to_owned())], count)).collect()
        }),
    ),
    row(
        "process_resident_memory",
        Some(Bytes),
        "Resident memory",
        Gauge(|_| resident_bytes().into_iter().flat_map(one).collect()),
    ),
    row("process_open_fds", None, "Open file descriptors", Gauge(|_| open_files().into_iter().flat_map(one).collect())),
];

const fn row(name: &'static str, unit: Option<Unit>, help: &'static str, values: Values) -> Row {
    Row { name, unit, help, values }
}

/// The metrics as text. Reads files that tell of the process.
pub(in super::super) fn text(metrics: Arc<Metrics>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(metrics)));
    let mut text = String::new();
    // A text takes all that is written to it.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

struct Page(Arc<Metrics>);

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page")
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        TABLE.iter().try_for_each(|row| row.encode(&self.0, &mut encoder))
    }
}

impl Row {
    fn encode(&self, metrics: &Metrics, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = match self.values {
            Counter(_) => MetricType::Counter,
            Gauge(_) => MetricType::Gauge,
            Times(_) => MetricType::Histogram,
        };
        let help = format!("{}.", self.help);
        let mut metric = encoder.encode_descriptor(self.name, &help, self.unit.as_ref(), kind)?;
        const NO_EXEMPLAR: Option<&Exemplar<Labels, f64>> = None;
        match self.values {
            Counter(values) => {
                each(&mut metric, values(metrics), |mut metric, value| metric.encode_counter(&value, NO_EXEMPLAR))
            }
            Gauge(values) => each(&mut metric, values(metrics), |mut metric, value| metric.encode_gauge(&value)),
            Times(values) => each(&mut metric, values(metrics), |mut metric, value| {
                let buckets = value.buckets();
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<Labels>(value.sum().as_secs_f64(), count, &buckets, None)
            }),
        }
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    values: Vec<(Labels, T)>,
    encode: impl Fn(MetricEncoder<'_>, T) -> Result<(), fmt::Error>,
) -> Result<(), fmt::Error> {
    values.into_iter().try_for_each(|(labels, value)| encode(metric.encode_family(&labels)?, value))
}

fn one<T>(value: T) -> Vec<(Labels, T)> {
    vec![(Vec::new(), value)]
}

fn version() -> Labels {
    vec![("version", env!("CARGO_PKG_VERSION").to_owned())]
}

fn requests(metrics: &Metrics) -> Vec<(Labels, u64)> {
    let labels = |transport: Transport, result: &str| {
        vec![("transport", transport.name().to_owned()), ("result", result.to_owned())]
    };
    metrics.requests.all().into_iter().map(|((transport, result), count)| (labels(transport, result), count)).collect()
}

fn durations(metrics: &Metrics) -> Vec<(Labels, &Histogram)> {
    let labels = |transport: Transport| vec![("transport", transport.name().to_owned())];
    [Transport::Grpc, Transport::Http]
        .map(|transport| (labels(transport), &metrics.durations[transport as usize]))
        .into()
}

fn spans(metrics: &Metrics) -> Vec<(Labels, u64)> {
    let delivered = &metrics.delivered;
    let counts =
        [("accepted", &delivered.spans), ("rejected", &metrics.rejected_spans), ("lost", &delivered.spans_lost)];
    counts.map(|(result, count)| (vec![("result", result.to_owned())], count.load(Relaxed))).into()
}

fn events(metrics: &Metrics) -> Vec<(Labels, u64)> {
    let events = metrics.delivered.events_by().into_iter();
    let labels = |kind: &str, dialect: &str| vec![("type", kind.to_owned()), ("dialect", dialect.to_owned())];
    events.map(|(kind, dialect, count)| (labels(kind.name(), dialect), count)).collect()
}

fn of_sink<T>(metrics: &Metrics, value: T) -> Vec<(Labels, T)> {
    vec![(vec![("sink", metrics.delivered.sink.name().to_owned())], value)]
}

fn by_queue<T>(metrics: &Metrics, value: impl Fn(QueueStatus) -> T) -> Vec<(Labels, T)> {
    let labels = |queue: &Progress| vec![("sink", queue.receiver().to_owned())];
    metrics.queues.iter().map(|queue| (labels(queue), value(queue.status()))).collect()
}

/// Values of each queue by another label.
fn by_queue_and<T, const N: usize>(
    metrics: &Metrics,
    label: &'static str,
    values: impl Fn(QueueStatus) -> [(&'static str, T); N],
) -> Vec<(Labels, T)> {
    let of_queue = |(labels, values): (Labels, [(&'static str, T); N])| {
        values.map(|(name, value)| (labels.iter().cloned().chain([(label, name.to_owned())]).collect(), value))
    };
    by_queue(metrics, values).into_iter().flat_map(of_queue).collect()
}

/// What the system says of this process; nothing where it says it elsewhere.
fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB");
    Some(kibibytes.parse::<f64>().ok()? * 1024.0)
}

fn open_files() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}
