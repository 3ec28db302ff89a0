//! What `nearside load` reports of a measurement.

use crate::error::Error;
use crate::machine::CpuShare;
use crate::measure::{Latency, Measurement, PERCENTILES};
use serde_json::Value;

/// Reads the generator's report, and its curve for the percentiles that the
/// report does not hold.
///
/// # Errors
/// If it is not whole, or nothing was answered.
pub fn parse(report: &str, hgrm: &str) -> Result<Measurement, Error> {
    let missing = |what: &str| Error::output("nearside load", what);
    let report: Value = serde_json::from_str(report).map_err(|_| missing("report in JSON"))?;
    let number = |place: &str| report.pointer(place).and_then(Value::as_f64).ok_or_else(|| missing(place));
    let micros = |name: &str| Ok(number(&format!("/latency/{name}_ns"))? / 1e3);
    let responses = number("/traffic/responses")?;
    if responses == 0.0 {
        return Err(missing("answered requests"));
    }
    let rows = parse_hgrm(hgrm);
    let mut curve = Vec::with_capacity(PERCENTILES.len());
    for percentile in PERCENTILES {
        let reported = REPORTED.iter().find(|(known, _)| *known == percentile);
        let drawn = rows.iter().find(|(quantile, _)| *quantile * 100.0 >= percentile - 1e-9);
        curve.push(match (reported, drawn) {
            (Some((_, name)), _) => micros(name)?,
            (None, Some((_, millis))) => (millis * 1e6).round() / 1e3,
            (None, None) => return Err(missing("whole latency curve")),
        });
    }
    let max = micros("max")?;
    // The table's steps are coarse, and err upwards: what comes later bounds them.
    curve.iter_mut().rev().fold(max, |bound, micros| {
        *micros = micros.min(bound);
        *micros
    });
    let errors = report.pointer("/errors").and_then(Value::as_object).ok_or_else(|| missing("/errors"))?;
    let warnings = report.pointer("/warnings").and_then(Value::as_array).ok_or_else(|| missing("/warnings"))?;
    let kinds = warnings.iter().filter_map(|warning| warning.get("kind")?.as_str().map(str::to_owned));
    Ok(Measurement {
        requests_per_second: number("/throughput/requests_per_second")?,
        response_bytes: number("/traffic/received_bytes")? / responses,
        latency: Latency { curve, max },
        errors: errors.values().filter_map(Value::as_u64).sum(),
        server: CpuShare::default(),
        client: CpuShare::default(),
        server_busy: None,
        warnings: kinds.collect(),
    })
}

/// The percentiles that the report itself holds, by their field's name.
const REPORTED: [(f64, &str); 7] =
    [(0.0, "min"), (50.0, "p50"), (75.0, "p75"), (90.0, "p90"), (99.0, "p99"), (99.9, "p999"), (99.99, "p9999")];

/// The rows of HdrHistogram's percentile table: quantile, and milliseconds.
fn parse_hgrm(text: &str) -> Vec<(f64, f64)> {
    let row = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let millis = columns.next()?.parse().ok()?;
        let quantile = columns.next()?.parse().ok()?;
        Some((quantile, millis))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_whole_or_not_at_all() {
        let report = r#"{"throughput":{"requests_per_second":2e6},"traffic":{"responses":4,"received_bytes":600},
            "latency":{"min_ns":1000,"p50_ns":2000,"p75_ns":2500,"p90_ns":3000,"p99_ns":4000,"p999_ns":5000,
            "p9999_ns":6000,"max_ns":9000},"errors":{"timeouts":1,"reset":2},
            "warnings":[{"kind":"client-saturated","busy_fraction":0.99}]}"#;
        let hgrm = "Value Percentile TotalCount 1/(1-Percentile)\n\n0.001000 0.000000000000 1 1.00\n\
                    0.002000 0.500000000000 2 2.00\n0.009000 1.000000000000 4\n#[Mean    = 0.1, StdDeviation = 0]\n";
        let read = parse(report, hgrm).expect("it is whole");
        assert_eq!((read.requests_per_second, read.response_bytes, read.errors), (2e6, 150.0, 3));
        assert_eq!((read.latency.at(0.0), read.latency.at(99.0), read.latency.max), (Some(1.0), Some(4.0), 9.0));
        assert_eq!((read.latency.at(10.0), read.latency.at(99.999)), (Some(2.0), Some(9.0)));
        assert_eq!(read.warnings, ["client-saturated"]);
        for name in ["responses", "p99_ns", "requests_per_second", "errors", "warnings"] {
            assert!(parse(&report.replace(name, "other"), hgrm).is_err(), "without {name}");
        }
        assert!(parse(report, "").is_err());
    }
}
