//! Pages of loads, of searches for the highest rate, of sweeps, and of streams, without end or with a rate.

use crate::cells::{
    at, counted, curve, curves, distributions, expected, list, number, object, plain, sound, sound_of, table, text,
    texts, values,
};
use figures::{digits, many, seconds, si};
use pages::{Axis, AxisScale, Chart, CurvePoint, Page, PagePart, PageTable, Series};
use serde_json::{Value, json};

const LATENCY: &str = "time: name; samples: of/samples count; min: of/min_ns ns; mean: of/mean_ns ns; \
                       deviation: of/stdev_ns ns; p50: of/p50_ns ns; p75: of/p75_ns ns; \
                       p90: of/p90_ns ns; p99: of/p99_ns ns; p99.9: of/p999_ns ns; \
                       p99.99: of/p9999_ns ns; max: of/max_ns ns";

/// Times that a load may tell, by where they stand.
const TIMES: &str = "request due to answered: latency; sent to answered (uncorrected): service; \
                     due to sent (schedule lag): lag; sent to first byte: waiting; connect and request: total; \
                     connect: connect; TLS handshake: secured/handshake";

const PER_SECOND: &str = "requests: requests_per_second /s; connections: connections_per_second /s; \
                          received: received_bytes_per_second B; content of it: body_bytes_per_second B; \
                          sent: sent_bytes_per_second B";

/// One load.
pub fn load(page: &mut Page, whole: &Value) {
    let (latency, samples) = (sound(&whole["latency"]), number(whole, "/latency/samples").unwrap_or(0.0));
    // Of a window that never began there is no rate.
    let begun = whole["window_ns"].as_u64() != Some(0);
    let rate = number(whole, "/throughput/requests_per_second").filter(|_| begun);
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| si(rate, "requests/s"));
    let time = |(name, path)| Some(format!("{name} {}", seconds(number(&latency, path).filter(|_| samples > 0.0)?)));
    let times = [("p50", "/p50_ns"), ("p99", "/p99_ns"), ("max", "/max_ns")].into_iter().filter_map(time);
    page.head.answer = vec![[rate, times.collect::<Vec<_>>().join(", ")].join(": ").trim_end_matches(": ").to_owned()];
    page.figure(expected("Objectives", list(whole, "/objectives"), "/objective", "MISSED"));
    if begun {
        page.figure(values("In a second", PER_SECOND, &whole["throughput"]));
    }
    // Where there is one class, it is what stands above.
    let classes = Some(list(whole, "/classes")).filter(|classes| classes.len() > 1).unwrap_or_default();
    let classes = classes.iter().map(|one| (one["class"].as_str().unwrap_or_default(), &one["latency"]));
    page.figure(distributions("Latency", LATENCY, at(whole, TIMES).chain(classes)));
    let urls = list(whole, "/urls").iter().map(|one| {
        let name = one["request"].as_str().map_or_else(|| format!("{} others", plain(&one["requests"])), str::to_owned);
        let body = number(one, "/body_bytes").unwrap_or(0.0) / number(one, "/responses").unwrap_or(0.0).max(1.0);
        json!({ "name": name, "of": sound(&one["latency"]), "url": one, "size": body })
    });
    page.figure(table("Requests apart", URL, &urls.collect::<Vec<_>>()));
    for (caption, path) in
        [("Answers by status", "/statuses"), ("Calls by grpc-status", "/grpc"), ("What failed", "/errors")]
    {
        page.figure(happened(caption, whole, path));
    }
    let shares = list(whole, "/percentiles").iter().filter_map(|one| Some((one[0].as_f64()?, one[1].as_f64()?)));
    let series = Series::by_share("request due to answered", shares, samples, number(whole, "/latency/max_ns"));
    page.curve(Chart::by_percentile("Latency by percentile", vec![series.counting(page.head.verdict.counts())]));
    page.tell(values("The run", THE_RUN, whole));
    page.tell(object("What was asked for", whole, "/setup"));
}

/// Counts of an object, of what there was.
fn happened(caption: &str, whole: &Value, path: &str) -> PageTable {
    let mut counts = object(caption, whole, path);
    counts.rows.retain(|row| row[1] != "0");
    counts
}

/// Of a request that is shown apart.
const URL: &str = "request: name; responses: url/responses count; size: size B; samples: of/samples count; \
                   mean: of/mean_ns ns; p50: of/p50_ns ns; p99: of/p99_ns ns; max: of/max_ns ns; \
                   2xx: url/success count; 3xx: url/redirection count; 4xx: url/client_error count; \
                   5xx: url/server_error count; failed: url/failed count; wrong: url/wrong count";

/// How a load was measured: its times, what was due, what the generator took, and whether Little's law holds.
const THE_RUN: &str = "measured for: window_ns ns; opening connections: ramp_ns ns; warm-up: warm_up_ns ns; \
                       requests in the warm-up: warm_up_phase/traffic/sent count; threads: silos count; \
                       due: schedule/due count; of it answered: schedule/achieved_fraction share; \
                       due and not sent: schedule/unsent count; \
                       under way, on average: littles_law/in_progress digits; \
                       rate times latency (Little's law): littles_law/rate_times_latency digits; \
                       generator busy: client/busy_fraction share; \
                       its processor time, user: client/cpu/user_ns ns; \
                       its processor time, system: client/cpu/system_ns ns; \
                       it waited for a core: client/cpu/run_delay_ns ns; it stood still: client/stood_still_ns ns; \
                       its own latency, mean: client/floor/mean_ns ns; its own latency, p99: client/floor/p99_ns ns";

const RUN: &str = "asked for: rate /s; answered: of/achieved /s; mean: of/mean_ns ns; p50: of/p50_ns ns; \
                   p99: of/p99_ns ns; p99.9: of/p999_ns ns";

/// The highest rate that meets objectives.
pub fn found(page: &mut Page, whole: &Value) {
    // The verdict has its reason already.
    let told = |line: &String| match line.starts_with("INVALID") {
        true => line.rsplit_once("; ").map_or_else(String::new, |(_, answer)| answer.to_owned()),
        false => line.clone(),
    };
    page.head.answer = texts(whole, "/told").iter().map(told).filter(|line| !line.is_empty()).collect();
    let points = list(whole, "/found/points");
    let line = |name: &str, path: &str| {
        let of = |point: &Value| {
            let x = number(point, "/rate").unwrap_or(0.0);
            let (spoilt, counted): (Vec<&Value>, Vec<&Value>) =
                list(point, "/trials").iter().filter(|trial| !is_empty(trial)).partition(|trial| is_void(trial));
            let mut values: Vec<f64> = counted.into_iter().filter_map(|trial| number(trial, path)).collect();
            values.sort_by(f64::total_cmp);
            let interval = if let [low, .., high] = values[..] { Some((low, high)) } else { None };
            let median = values.get(values.len().saturating_sub(1) / 2);
            let median = median.map(|y| CurvePoint { interval, ..CurvePoint::from((x, *y)) });
            let spoilt = spoilt.into_iter().filter_map(|trial| Some((x, number(trial, path)?, false).into()));
            median.into_iter().chain(spoilt).collect::<Vec<_>>()
        };
        Series::new(name, points.iter().flat_map(of))
    };
    let x = Axis::counts("requests/s asked for");
    let y = Axis::times("latency: the median run, from the least to the most");
    let series = [("p50", "/p50_ns"), ("p99", "/p99_ns"), ("p99.9", "/p999_ns")].map(|(name, path)| line(name, path));
    page.curve(Chart::new("Latency over load", x.clone(), y, series.into()));
    let answered = line("answered", "/achieved");
    // Beside nothing that was measured it would look like what was.
    let asked = (!answered.points.is_empty()).then(|| curve("asked for", points, ["/rate", "/rate"], |_| true));
    let series = [answered].into_iter().chain(asked).collect();
    page.curve(Chart::new("Answered over load", x, Axis::counts("responses/s"), series));
    let runs = |point: &Value| {
        let trials = list(point, "/trials").iter();
        let of = |trial| if is_empty(trial) { &Value::Null } else { trial };
        trials.map(|trial| json!({ "rate": point["rate"], "of": of(trial), "trial": trial })).collect::<Vec<_>>()
    };
    let runs: Vec<Value> = points.iter().flat_map(runs).collect();
    let verdict = |run: &Value| match (run["trial"]["met"] == true, is_void(&run["trial"])) {
        (true, _) => "met".to_owned(),
        // Results of earlier versions have no words for it.
        (false, true) => counted(
            &[text(run, "/trial/why"), text(run, "/trial/spoilt")]
                .into_iter()
                .find(|why| !why.is_empty())
                .unwrap_or_default(),
        ),
        (false, false) => "missed".to_owned(),
    };
    page.figure(table("Runs", RUN, &runs).judged(runs.iter().map(verdict)));
    page.tell(PagePart::List(vec![format!("To be met: {}", texts(whole, "/objectives").join(", "))]));
    page.tell(object("Slices of the runs", whole, "/slices"));
}

/// Whether nothing of a run counts, so that its zeros are no figures.
fn is_empty(trial: &Value) -> bool {
    trial.pointer("/sifted/counted").and_then(Value::as_u64) == Some(0)
}

/// Whether a run says nothing: the machine spoilt it, and it did not meet the objectives nevertheless.
fn is_void(trial: &Value) -> bool {
    !trial["spoilt"].is_null() && trial["met"] != true
}

const ROW: &str = "load: load; rate: rps_avg /s; best interval: rps_max /s; \
                   p50: lat50_ns ns; p90: lat90_ns ns; p99: lat99_ns ns; max: latmax_ns ns; \
                   client CPU: cpu_client/all share; its system: cpu_client/system share; \
                   server CPU: cpu_server/all share; its system: cpu_server/system share; errors: errors count";

/// Loads by connections and threads.
pub fn sweep(page: &mut Page, whole: &Value) {
    // Rows of earlier versions do not tell how many samples they are of.
    let sound = |row: &Value| {
        let mut sound = row["samples"].as_f64().map_or_else(|| row.clone(), |samples| sound_of(row, samples));
        // A row is named by all that tells it from the others.
        sound.as_object_mut().into_iter().for_each(|sound| _ = sound.insert("load".to_owned(), setting(row).into()));
        sound
    };
    let rows: Vec<Value> = list(whole, "/rows").iter().map(sound).collect();
    let rows = rows.as_slice();
    let counts = |row: &Value| row["trust"] != "no";
    let rate = |row: &Value| number(row, "/rps_avg").unwrap_or(0.0);
    let best = rows.iter().filter(|row| counts(row)).max_by(|a, b| f64::total_cmp(&rate(a), &rate(b)));
    page.head.answer.extend(best.map(|row| format!("at most {}, with {}", si(rate(row), "requests/s"), setting(row))));
    let verdict = |row: &Value| if counts(row) { "counts" } else { "does not count" }.to_owned();
    page.figure(table("Loads", ROW, rows).judged(rows.iter().map(verdict)));
    let mut chart = |title: &str, y: Axis, of: &[(&str, &str)]| {
        let threads = |row: &Value| many(row["procs"].as_u64().unwrap_or(0), "thread");
        let x = Axis::new("connections", AxisScale::Logarithmic, |value| format!("{value:.0}"));
        page.curve(Chart::new(title, x, y, curves(rows, threads, "/connections", of, counts)));
    };
    chart("Requests per second", Axis::counts("requests/s"), &[("", "/rps_avg")]);
    chart("Latency", Axis::times("latency"), &[("p50, ", "/lat50_ns"), ("p99, ", "/lat99_ns")]);
    let warned = rows.iter().filter(|row| !list(row, "/warnings").is_empty());
    let against = warned.map(|row| (setting(row), text(row, "/warnings")));
    page.tell(PageTable::pairs("What speaks against rows", ["", "why"], against));
    if let Some(why) = whole["server_unknown"].as_str() {
        page.tell(PagePart::Text(format!("The server's CPU is not known: {why}")));
    }
}

/// How many threads and connections a row is of.
fn setting(row: &Value) -> String {
    let count = |key: &str| row[key].as_u64().unwrap_or(0);
    format!("{} and {}", many(count("connections"), "connection"), many(count("procs"), "thread"))
}

const SPAN: &str = "to, s: end_s digits; sent: up/bytes B; rate up: up/bits_per_second bit/s; \
                    sent again: up/retransmits count; window of all: up/cwnd B; streams up: up/streams count; \
                    received: down/bytes B; rate down: down/bits_per_second bit/s; \
                    out of order: down/out_of_order count";

const CARRIED: &str = "interface: name; sent: sent bit/s; received: received bit/s; its speed: speed bit/s";

const OWN: &str = "own CPU, user: cpu_user share; own CPU, system: cpu_system share";

/// Streams without end.
pub fn bulk(page: &mut Page, whole: &Value) {
    let ways = [("up", "/up/bits_per_second"), ("down", "/down/bits_per_second")];
    let rate = |(name, path)| Some(format!("{} {name}", si(number(whole, path)?, "bit/s")));
    page.head.answer.push(ways.into_iter().filter_map(rate).collect::<Vec<_>>().join(", "));
    page.figure(values("The whole measured time", SPAN, whole));
    page.figure(table("Interfaces", CARRIED, list(whole, "/carried")));
    let spans = list(whole, "/intervals");
    // Each begins where the one before it ends.
    page.figure(table("Intervals", SPAN, spans));
    let (x, y) = (Axis::new("until, s", AxisScale::Near, digits), Axis::counts("bit/s"));
    // What is left at the end may be a moment, of which a rate says nothing.
    let length = |span: &Value| number(span, "/end_s").unwrap_or(0.0) - number(span, "/start_s").unwrap_or(0.0);
    let valid = page.head.verdict.counts();
    let whole_ones = |span: &Value| valid && length(span) > 0.5 * spans.first().map_or(0.0, length);
    let curves = ways.map(|(name, path)| curve(name, spans, ["/end_s", path], whole_ones));
    page.curve(Chart::new("Carried, interval by interval", x, y, curves.into()));
    page.tell(values("The generator", OWN, whole));
    page.tell(object("What was asked for", whole, "/setup"));
}

/// Times of streams that are to have a rate.
const STREAM_TIMES: &str = "connect{}: connect; request to first byte: first_byte; \
                            waited for first bytes that did not come: no_first_byte; \
                            first connect to playing: playing/start; \
                            waited by those that never played: playing/no_start; nothing to play: playing/under_runs; \
                            behind at the end of a second: late; generator called late: own_delay";

/// How far streams were off their rate, by where it stands.
const OFF_BY: &str = "bytes, in a second: evenness/off_bytes; parts of what was due, in 10 s: evenness/off_over_10s";

const OFF: &str = "off by: name; samples: of/samples count; p50: of/p50 digits; p99: of/p99 digits; \
                   p99.9: of/p999 digits; max: of/max digits";

const STREAM_SHARES: &str = "within one segment: evenness/within_one share; within two: evenness/within_two share; \
                             of the time without anything to play: playing/stalled share; \
                             under-runs: playing/under_runs/samples count; \
                             streams with under-runs: playing/streams_with_under_runs count; \
                             streams that never played: playing/no_start/samples count; \
                             streams under way: under_way count; answers: answers count; \
                             answers not as wanted: wrong count";

/// What lies in seconds that do not count.
const STREAM_DISTURBED: &str = "under-runs: playing/disturbed_under_runs count; \
                                without anything to play, all streams together: playing/disturbed_ns ns";

/// Streams that are to have a rate.
pub fn streams(page: &mut Page, whole: &Value) {
    // Results of before HTTP/2 was spoken have a stream on each connection.
    let all = whole.pointer("/setup/streams").unwrap_or(&whole["setup"]["connections"]);
    let all = many(all.as_u64().unwrap_or(0), "stream");
    let rate = number(whole, "/setup/rate").unwrap_or(0.0);
    let urls = match number(whole, "/setup/requests") {
        Some(urls) if urls > 1.0 => format!(", of {urls:.0} URLs in turn"),
        _ => String::new(),
    };
    let received = si(number(whole, "/bits_per_second").unwrap_or(0.0), "bit/s");
    page.head.answer.push(format!("{all} of {}{urls}: {received} received", si(rate, "bit/s")));
    page.figure(expected("Objectives", list(whole, "/objectives"), "/objective", "MISSED"));
    page.figure(values("The whole measured time", STREAM_SHARES, whole));
    let handshake = if text(whole, "/setup/scheme") == "https" { ", and TLS handshake" } else { "" };
    let times = STREAM_TIMES.replace("{}", handshake);
    page.figure(distributions("Times", LATENCY, at(whole, &times)));
    if number(whole, "/playing/disturbed_ns").is_some_and(|time| time > 0.0) {
        page.figure(values("In seconds that do not count", STREAM_DISTURBED, whole));
    }
    page.figure(distributions("How far from the rate", OFF, at(whole, OFF_BY)));
    page.figure(object("Seconds", whole, "/counted"));
    page.figure(happened("What failed", whole, "/errors"));
    page.figure(values("", "the last failure: failure", whole));
    let valid = page.head.verdict.counts();
    let mut chart = |title: &str, y: Axis, name: &str, of: &dyn Fn(&Value) -> Option<f64>| {
        let point = |(at, one): (usize, &Value)| Some((at as f64 + 1.0, of(one)?, valid && one["left_out"].is_null()));
        let line = Series::new(name, list(whole, "/seconds").iter().enumerate().filter_map(point));
        let seconds = Axis::new("until, s", AxisScale::Near, digits);
        page.curve(Chart::new(title, seconds, y, vec![line]));
    };
    let bits = |one: &Value| Some(8.0 * number(one, "/bytes").unwrap_or(0.0));
    let received = Axis::counts("bit/s");
    chart("Received, second by second", received, "received by streams that were under way", &bits);
    let late = |one: &Value| number(one, "/late");
    chart("Streams behind what was due", Axis::whole("streams"), "streams behind", &late);
    page.figure(table("Interfaces", CARRIED, list(whole, "/carried")));
    page.tell(values("The generator", OWN, whole));
    page.tell(object("What was asked for", whole, "/setup"));
}
