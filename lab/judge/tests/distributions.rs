//! Figures that were computed of samples are believed, whatever the samples.

use core::fmt::Write;
use judge::{judge, read};

/// Numbers from 0 to 1 by chance (Knuth's MMIX constants).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Samples in microseconds, of shapes that real servers have and do not have.
fn samples(shape: u64, count: usize, chance: &mut Chance) -> Vec<u64> {
    let mut all: Vec<u64> = (0..count)
        .map(|at| {
            let by = chance.next();
            let micros = match shape {
                0 => 1000.0 * by,
                1 => -2000.0 * (1.0 - by).ln(),
                2 => 5000.0,
                3 => 100.0 + if by < 0.99 { 0.0 } else { 300_000.0 },
                4 => 50.0 / (1.0 - by).max(1e-7),
                5 => 1e6 * f64::from(u8::from(at == 0)),
                _ => 3000.0 * (by * 4.0).floor(),
            };
            micros.round() as u64
        })
        .collect();
    all.sort_unstable();
    all
}

fn mean(all: &[u64]) -> f64 {
    all.iter().sum::<u64>() as f64 / all.len() as f64
}

fn deviation(all: &[u64], degrees: f64) -> f64 {
    let mean = mean(all);
    (all.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / degrees).sqrt()
}

/// As `ab.c` computes and prints.
fn ab(all: &[u64]) -> String {
    let n = all.len();
    let milli = |micros: f64| (micros / 1000.0).round();
    let seconds = all.iter().sum::<u64>() as f64 * 1e-6 + 0.01;
    let middle = match n > 1 && n.is_multiple_of(2) {
        true => (all[n / 2] + all[(n / 2 + 1).min(n - 1)]) as f64 / 2.0,
        false => all[n / 2] as f64,
    };
    let rate = n as f64 / seconds;
    let mut out = format!(
        "This is ApacheBench, Version 2.3\nConcurrency Level:      1\nTime taken for tests:   {seconds:.3} seconds\n\
         Complete requests:      {n}\nFailed requests:        0\nRequests per second:    {rate:.2} [#/sec] (mean)\n\
         Time per request:       {:.3} [ms] (mean)\n\nConnection Times (ms)\n\
         Total: {} {} {:.1} {} {}\n\nPercentage of the requests served within a certain time (ms)\n",
        1e3 / rate,
        milli(all[0] as f64),
        milli(mean(all)),
        deviation(all, (n as f64 - 1.0).max(1.0)) / 1000.0,
        milli(middle),
        milli(all[n - 1] as f64),
    );
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        let _ = writeln!(out, "  {percent}%  {}", milli(all[n * percent / 100] as f64));
    }
    let _ = writeln!(out, " 100%  {} (longest request)", milli(all[n - 1] as f64));
    out
}

fn spelled(micros: f64) -> String {
    let micros = micros as u64;
    format!("{}s {:03}ms {:03}us", micros / 1_000_000, micros / 1000 % 1000, micros % 1000)
}

/// As Nighthawk prints.
fn nighthawk(all: &[u64]) -> String {
    let n = all.len();
    let mut out = format!(
        "Nighthawk - A layer 7 protocol benchmarking tool.\n\nbenchmark_http_client.latency_2xx ({n} samples)\n  \
         min: {} | mean: {} | max: {} | pstdev: {}\n\n",
        spelled(all[0] as f64),
        spelled(mean(all)),
        spelled(all[n - 1] as f64),
        spelled(deviation(all, n as f64)),
    );
    for share in [0.5, 0.75, 0.9, 0.99] {
        let rank = ((n as f64 * share).ceil() as usize).clamp(1, n);
        let _ = writeln!(out, "  {share}  {rank}  {}", spelled(all[rank - 1] as f64));
    }
    out + "\nCounter Value Per second\nbenchmark.http_2xx 10 1.00\n"
}

#[test]
fn what_samples_make_is_believed() {
    let mut chance = Chance(7);
    for shape in 0..7 {
        for count in [1, 2, 3, 5, 10, 99, 100, 1000, 20_000] {
            for _ in 0..if count > 1000 { 2 } else { 40 } {
                let all = samples(shape, count, &mut chance);
                for text in [ab(&all), nighthawk(&all)] {
                    let source = read("x", text.as_bytes()).unwrap_or_else(|why| panic!("{why}\n{text}"));
                    let mut found = judge(&[source], None);
                    // That few are few is said of them.
                    found.retain(|one| one.check != "samples");
                    assert!(found.is_empty(), "shape {shape}, {count} samples: {found:#?}\n{text}");
                }
            }
        }
    }
}
