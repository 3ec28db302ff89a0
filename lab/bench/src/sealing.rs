//! What sealing alone takes: records as the record layer makes them of plaintext that lies
//! elsewhere, whole or in pieces, beside the library's own call, in place.

use crate::BenchError;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use core::hint::black_box;
use cpu::Clock;
use record::{Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion};
use seal::{ContentType, Layer, Record};
use stats::{median, quantile};
use std::time::Duration;

/// How often, and for how long.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Measure each for so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub milliseconds: u64,
}

/// A small answer, a segment, the longest record.
const SIZES: [usize; 3] = [100, 1_370, 1 << 14];

/// Pieces of a record that is scattered: a head, and a body in three.
const PIECES: usize = 4;

const CIPHERS: [(RecordCipher, &Algorithm, &str); 3] = [
    (RecordCipher::Aes128Gcm, &AES_128_GCM, "AES-128-GCM"),
    (RecordCipher::Aes256Gcm, &AES_256_GCM, "AES-256-GCM"),
    (RecordCipher::ChaCha20Poly1305, &CHACHA20_POLY1305, "ChaCha20-Poly1305"),
];

/// What is done with the plaintext.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// It lies in one piece, and the record is made elsewhere.
    Whole,
    /// The same, of several pieces.
    Scattered,
    /// The same as whole, to where others can write, and summed.
    Shared,
    /// A record is opened: it is copied first.
    Opened,
    /// By the library's own call, where it lies.
    InPlace,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Whole, "whole"),
    (Way::Scattered, "scattered"),
    (Way::Shared, "into a slot, summed"),
    (Way::Opened, "opened"),
    (Way::InPlace, "library, in place"),
];

/// Measures and prints.
///
/// # Errors
/// If a cipher cannot be had.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    println!("features: {}", features());
    println!("{:<18} {:>6} {:<20} {:>9} {:>17} {:>7}", "cipher", "bytes", "", "ns", "quartiles", "GB/s");
    for (cipher, algorithm, name) in CIPHERS {
        for size in SIZES {
            let mut samples = vec![Vec::new(); WAYS.len()];
            for round in 0..plan.rounds as usize {
                for turn in 0..WAYS.len() {
                    let way = (round + turn) % WAYS.len();
                    samples[way].push(measure(
                        (cipher, algorithm),
                        size,
                        WAYS[way].0,
                        Duration::from_millis(plan.milliseconds),
                    )?);
                }
            }
            for ((_, way), times) in WAYS.iter().zip(&samples) {
                let (low, middle, high) = (quantile(times, 0.25), median(times), quantile(times, 0.75));
                let rate = size as f64 / middle;
                println!("{name:<18} {size:>6} {way:<20} {middle:>9.1} {low:>8.1}-{high:<8.1} {rate:>7.2}");
            }
        }
    }
    Ok(true)
}

/// Gigabytes a second that sealing alone reaches with AES-128-GCM, in the longest records,
/// which is what a transfer is held by: the median of so many tries.
///
/// # Errors
/// If the cipher cannot be had.
pub(crate) fn rate(tries: u32) -> Result<f64, BenchError> {
    let [.., size] = SIZES;
    let [(cipher, algorithm, _), ..] = CIPHERS;
    let once = |_| measure((cipher, algorithm), size, Way::Whole, Duration::from_millis(20));
    let times = (0..tries).map(once).collect::<Result<Vec<_>, _>>()?;
    Ok(size as f64 / median(&times))
}

/// Nanoseconds of one record.
fn measure(
    (cipher, algorithm): (RecordCipher, &'static Algorithm),
    size: usize,
    way: Way,
    duration: Duration,
) -> Result<f64, BenchError> {
    let key = vec![7; cipher.key_len()];
    let text = vec![0x5a; size];
    let mut layer = layer(cipher, &key)?;
    let (mut out, mut shared) = (vec![0; size + layer.overhead()], vec![0; size + layer.overhead()]);
    let record = |number| Record { epoch: 0, number, kind: ContentType::ApplicationData, padding: 0 };
    match way {
        Way::Whole => timed(duration, |number| layer.seal(&record(number), &[&text], &mut out).is_ok()),
        Way::Scattered => {
            let parts: Vec<&[u8]> = text.chunks(size.div_ceil(PIECES)).collect();
            timed(duration, |number| layer.seal(&record(number), &parts, &mut out).is_ok())
        }
        Way::Shared => timed(duration, |number| {
            let sealed = layer.seal_shared(&record(number), &[&text], &mut shared, &mut out).is_ok();
            black_box(&mut shared);
            sealed
        }),
        Way::Opened => opened(layer, &text, duration),
        Way::InPlace => {
            let key = UnboundKey::new(algorithm, &key).map_err(|_| "the cipher takes no such key")?;
            let key = LessSafeKey::new(key);
            let mut text = text;
            timed(duration, |number| {
                let mut nonce = [0; 12];
                nonce[4..].copy_from_slice(&number.to_be_bytes());
                let nonce = Nonce::assume_unique_for_key(nonce);
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::from([23, 3, 3, 0, 0]), &mut text);
                black_box(&mut text);
                sealed.is_ok()
            })
        }
    }
}

/// Records come in order, so that each is made anew: as many at a time as stay in a cache.
fn opened(mut layer: RecordLayer, text: &[u8], duration: Duration) -> Result<f64, BenchError> {
    let many = (1 << 18) / text.len();
    let (mut number, mut spent, mut count) = (0, Duration::ZERO, 0);
    let mut plain = Vec::with_capacity(text.len() + 64);
    while spent < duration {
        let mut wire = vec![vec![0; text.len() + layer.overhead()]; many];
        for out in &mut wire {
            let record = Record { epoch: 0, number, kind: ContentType::ApplicationData, padding: 0 };
            layer.seal(&record, &[text], out)?;
            number += 1;
        }
        let began = Clock.now();
        for record in &wire {
            plain.clear();
            black_box(layer.open(record, &mut plain));
            if plain.len() != text.len() {
                return Err("a record was not opened".into());
            }
        }
        spent += Clock.now().since(began);
        count += many;
    }
    Ok(spent.as_nanos() as f64 / count as f64)
}

/// Calls of a sample that are not timed by themselves.
const AT_ONCE: u64 = 64;

fn timed(duration: Duration, mut once: impl FnMut(u64) -> bool) -> Result<f64, BenchError> {
    let mut number = 0;
    let began = Clock.now();
    while Clock.now().since(began) < duration {
        for _ in 0..AT_ONCE {
            if !once(number) {
                return Err("a record was not sealed".into());
            }
            number += 1;
        }
    }
    Ok(Clock.now().since(began).as_nanos() as f64 / number as f64)
}

/// One that opens what it seals.
fn layer(cipher: RecordCipher, key: &[u8]) -> Result<RecordLayer, BenchError> {
    let way = || -> Result<KeyedWay, BenchError> {
        let keys = RecordKeys::new(cipher, key, [9; 12]).ok_or("the cipher takes no such key")?;
        Ok(KeyedWay { keys, number: 0 })
    };
    Ok(RecordLayer::new(Established {
        version: TlsVersion::V13,
        side: TlsSide::Server,
        sends: way()?,
        receives: way()?,
        afterwards: Afterwards::Nothing,
        most: seal::MAX_PLAINTEXT,
    }))
}

/// What of the processor ciphers can use.
pub(crate) fn features() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let known = ["aes", "pclmulqdq", "avx2", "vaes", "vpclmulqdq", "avx512f", "avx512vl"];
    let has = known.into_iter().filter(|name| flags.split_whitespace().any(|flag| flag == *name));
    has.collect::<Vec<_>>().join(" ")
}
