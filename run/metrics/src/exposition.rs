//! A statistics page as OpenMetrics text.

use crate::catalogue::{Catalogue, Family, Sort};
use crate::lifecycle::{Lifecycle, Readiness};
use core::fmt;
use latency::{BUCKETS, Histogram, Series, upper_bound};
use page::{Note, Reader, Snapshot};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// The media type of what [`Exposition::text`] makes.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Makes the text.
#[derive(Debug)]
pub struct Exposition {
    page: Arc<PageSource>,
    registry: Registry,
}

/// What is told.
#[derive(Debug)]
struct PageSource {
    reader: Reader,
    catalogue: Catalogue,
    lifecycle: Arc<Lifecycle>,
    /// The place of what says whether a link is up.
    link_up: Option<usize>,
    /// And of what says for how long the file system has answered nothing.
    file_silence: Option<usize>,
}

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

impl Exposition {
    /// Of the page that `reader` reads, whose process has come as far as `lifecycle`
    /// says.
    #[must_use]
    pub fn new(reader: Reader, lifecycle: Arc<Lifecycle>) -> Self {
        let catalogue = Catalogue::of(reader.metrics());
        let place = |wanted: &str| reader.metrics().iter().position(|(name, _)| name == wanted);
        let (link_up, file_silence) = (place("link.up"), place("app.file_silence"));
        let page = Arc::new(PageSource { reader, catalogue, lifecycle, link_up, file_silence });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&page)));
        Self { page, registry }
    }

    /// All values as they are now.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(64 << 10);
        // Fails only where a text cannot be written to.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Whether the process is to be sent clients.
    ///
    /// # Errors
    /// Why not; for people.
    pub fn ready(&self) -> Result<(), String> {
        self.page.ready()
    }

    /// Whether the process is at work.
    ///
    /// # Errors
    /// Why not; for people.
    pub fn alive(&self) -> Result<(), String> {
        crate::lifecycle::alive(&self.page.snapshot())
    }

    /// The families that there are.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.page.catalogue
    }
}

impl PageSource {
    fn snapshot(&self) -> Snapshot {
        // Of one that went away nothing is left.
        self.reader.snapshot().unwrap_or(Snapshot { silos: Vec::new() })
    }

    fn ready(&self) -> Result<(), String> {
        let snapshot = self.snapshot();
        let up = snapshot.silos.iter().filter_map(|silo| Some(*silo.values.get(self.link_up?)? != 0));
        let silence = snapshot.silos.iter().filter_map(|silo| silo.values.get(self.file_silence?).copied());
        self.lifecycle.ready(&snapshot, up, silence)
    }

    fn of_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut build = encoder.encode_descriptor("nearside_build", "The program.", None, MetricType::Info)?;
        build.encode_info(&version.as_slice())?;
        let started = self.reader.started().as_secs_f64();
        gauge(encoder, ("process_start_time", "When the process began.", Some(Unit::Seconds)), &started)?;
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        let help = "Processor time of all of its threads.";
        let mut cpu = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        counter(&mut cpu, &used)?;
        let ready = i64::from(self.ready().is_ok());
        gauge(encoder, ("nearside_ready", "Whether it is to be sent clients.", None), &ready)?;
        let stopping = i64::from(self.lifecycle.stage() >= Readiness::Followed);
        gauge(
            encoder,
            ("nearside_draining", "Whether it finishes what is under way and takes nobody.", None),
            &stopping,
        )?;
        let Ok(Some(Note { at, well, .. })) = self.reader.note() else { return Ok(()) };
        gauge(
            encoder,
            ("nearside_reload_success", "Whether the last reload did what was asked.", None),
            &i64::from(well),
        )?;
        let at = at.as_secs_f64();
        gauge(encoder, ("nearside_reload_time", "When the last reload ended.", Some(Unit::Seconds)), &at)
    }
}

impl Collector for PageSource {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.of_process(&mut encoder)?;
        let snapshot = self.snapshot();
        for family in &self.catalogue.families {
            of_family(&mut encoder, family, &snapshot)?;
        }
        of_places(&mut encoder, &places(&self.reader))
    }
}

/// Series of latencies in which anything was counted, of all silos together.
#[must_use]
pub fn places(reader: &Reader) -> Vec<Series> {
    // A page that went away has none.
    let series = reader.series().unwrap_or_default();
    series.iter().map(|one| Series::read(&one.name, one.generation, &one.silos)).filter(Series::is_used).collect()
}

/// Requests by host and location. Nothing where nobody counts them.
fn of_places(encoder: &mut DescriptorEncoder<'_>, places: &[Series]) -> fmt::Result {
    if places.is_empty() {
        return Ok(());
    }
    let labels =
        |place: &Series| -> Labels { vec![("host", place.host.clone()), ("location", place.location.clone())] };
    let help = "From the turn in which a request's head was whole to the end of the turn in which the last byte of \
                its response was queued.";
    let name = "nearside_request_duration";
    let mut durations = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for place in places {
        let sum = place.latency.sum as f64 / 1e9;
        let buckets = buckets(&place.latency);
        let labels = labels(place);
        let mut sample = durations.encode_family(&labels)?;
        sample.encode_histogram::<NoLabelSet>(sum, place.latency.count(), &buckets, None)?;
    }
    let help = "Responses by host, location and the class of their status.";
    let mut responses = encoder.encode_descriptor("nearside_location_responses", help, None, MetricType::Counter)?;
    for place in places {
        for (class, count) in ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(&place.classes) {
            let mut labels = labels(place);
            labels.push(("class", class.to_owned()));
            counter(&mut responses.encode_family(&labels)?, count)?;
        }
    }
    let help = "Bytes of responses by host and location, heads included.";
    let name = "nearside_location_sent";
    let mut bytes = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
    for place in places {
        counter(&mut bytes.encode_family(&labels(place))?, &place.bytes)?;
    }
    Ok(())
}

/// Every second bound, in seconds, with what is within it and not within the one
/// before: the encoder adds up.
fn buckets(latency: &Histogram) -> Vec<(f64, u64)> {
    let mut told = Vec::with_capacity(BUCKETS / 2 + 1);
    let mut within = 0_u64;
    for (bucket, count) in latency.counts.iter().enumerate() {
        within = within.wrapping_add(*count);
        match upper_bound(bucket) {
            Some(bound) if bucket % 2 == 0 => told.push((bound as f64 / 1e9, core::mem::take(&mut within))),
            Some(_) => {}
            None => told.push((f64::INFINITY, within)),
        }
    }
    told
}

/// A family's values, by silo.
fn of_family(encoder: &mut DescriptorEncoder<'_>, family: &Family, snapshot: &Snapshot) -> fmt::Result {
    let sort = match family.sort {
        Sort::Counter => MetricType::Counter,
        Sort::Gauge => MetricType::Gauge,
    };
    let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
    let mut encoder = encoder.encode_descriptor(&family.name, &family.help, unit.as_ref(), sort)?;
    for (place, label) in &family.members {
        for (number, silo) in snapshot.silos.iter().enumerate() {
            let Some(value) = silo.values.get(*place) else { continue };
            let mut labels: Labels = vec![("silo", number.to_string())];
            labels.extend(label.clone());
            let mut sample = encoder.encode_family(&labels)?;
            let seconds = *value as f64 / 1e9;
            match (family.sort, family.nanos) {
                (Sort::Counter, false) => counter(&mut sample, value)?,
                (Sort::Counter, true) => counter(&mut sample, &seconds)?,
                (Sort::Gauge, false) => sample.encode_gauge(&i64::try_from(*value).unwrap_or(i64::MAX))?,
                (Sort::Gauge, true) => sample.encode_gauge(&seconds)?,
            }
        }
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<Unit>),
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?.encode_gauge(value)
}

fn counter(encoder: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
}

#[cfg(test)]
mod packaged;
#[cfg(test)]
mod tests;
