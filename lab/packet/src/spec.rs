//! Streams as they are written: `64:1M`, `imix:10Gbit,flows=1000`.

use crate::replay::{Replay, Replayed};
use crate::schedule::{MILLI, RATE_LIMIT};
use crate::stream::{FLOWS_LIMIT, NETWORKS_LIMIT, Shape, WIRE_OVERHEAD};
use crate::tester::{Pacing, Stream};
use std::path::PathBuf;
use std::sync::Arc;

/// Frames per second, as they are asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum IntendedLoad {
    /// So many.
    Frames(f64),
    /// As many as give so many bits per second on a wire: with preamble and
    /// gap.
    Bits(f64),
    /// As many as the ring takes.
    Max,
}

impl IntendedLoad {
    /// Reads `1M`, `14.88M`, `10Gbit` or `max`.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no rate; write frames per second, as in 1M, bits as in 10Gbit, or max");
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.strip_suffix("bit") {
            Some(bits) => number(bits).map(Self::Bits).ok_or_else(bad),
            None => number(text).map(Self::Frames).ok_or_else(bad),
        }
    }

    /// When frames of this mean size, with the frame check sequence, are due.
    ///
    /// # Errors
    /// If nobody could send so fast, or so slowly.
    pub fn pacing(self, mean_size: f64, burst: u32) -> Result<Pacing, String> {
        let rate = match self {
            Self::Max => return Ok(Pacing::Max),
            Self::Frames(rate) => rate,
            Self::Bits(bits) => bits / 8.0 / (mean_size + WIRE_OVERHEAD as f64),
        };
        let milli = (rate * MILLI as f64).round();
        if milli < 1.0 || rate > RATE_LIMIT as f64 {
            return Err(format!("a rate is from 0.001 to {RATE_LIMIT} frames per second"));
        }
        Ok(Pacing::Rate { milli: milli as u64, burst })
    }
}

/// A positive number, with k, M or G for powers of a thousand.
fn number(text: &str) -> Option<f64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.parse::<f64>().ok().filter(|value| plain && *value > 0.0).map(|value| value * scale)
}

/// A stream before it has a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Its frames.
    pub shape: Shape,
    /// How many of them; `None`: not said.
    pub asked: Option<IntendedLoad>,
    /// Frames that are due at one time.
    pub burst: u32,
    /// Which ways: there, and back; `None`: not said.
    pub ways: Option<[bool; 2]>,
}

impl Spec {
    /// Reads `SIZE[:RATE][,key=value]…`: SIZE is bytes with the frame check
    /// sequence, with or without a B behind it, or imix; keys are `flows` (a
    /// number, `random:N` for flows in random order), `vlan`, `ip` (4 or 6), `as`
    /// (udp, or ptp for event messages of PTP over Ethernet),
    /// `networks` (1 to 256), `burst`, and `way` (`ab`, `ba` or `both`).
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (size, rate) = first.split_once(':').map_or((first, None), |(size, rate)| (size, Some(rate)));
        let sizes = match size {
            "imix" => Shape::imix(),
            size => {
                let bytes =
                    size.strip_suffix('B').unwrap_or(size).parse().ok().filter(|size| (64..=9_018).contains(size));
                vec![bytes.ok_or_else(|| {
                    format!("'{size}' is no size; write bytes with the frame check sequence, 64 to 9018, or imix")
                })?]
            }
        };
        let mut spec = Self {
            shape: Shape { sizes, ..Shape::default() },
            asked: rate.map(IntendedLoad::parse).transpose()?,
            burst: 1,
            ways: None,
        };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not of the form key=value"))?;
            spec.set(key, value)?;
        }
        // Small frames grow to what their headers need only where that was not asked otherwise.
        let least = spec.shape.smallest();
        if size == "imix" {
            spec.shape.sizes.iter_mut().for_each(|size| *size = (*size).max(least));
        }
        match spec.shape.sizes.iter().find(|size| **size < least) {
            Some(size) => Err(format!("frames of {size} bytes have no room for headers and mark: {least} at least")),
            None => Ok(spec),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = |takes: &str| format!("{key} takes {takes}");
        match key {
            "flows" => {
                let (random, count) = value.strip_prefix("random:").map_or((false, value), |count| (true, count));
                let flows = count.parse().ok().filter(|flows| (1..=FLOWS_LIMIT).contains(flows));
                self.shape.flows = flows.ok_or_else(|| bad("a number from 1 to 16384, or random:N"))?;
                self.shape.random = random;
            }
            "networks" => {
                let networks = value.parse().ok().filter(|networks| (1..=NETWORKS_LIMIT).contains(networks));
                self.shape.networks = networks.ok_or_else(|| bad("a number from 1 to 256"))?;
            }
            "vlan" => {
                let vlan = value.parse().ok().filter(|vlan| (1..=4_094).contains(vlan));
                self.shape.vlan = Some(vlan.ok_or_else(|| bad("a number from 1 to 4094"))?);
            }
            "ip" => {
                self.shape.ends = match value {
                    "4" => Shape::ends_v4(),
                    "6" => Shape::ends_v6(),
                    _ => return Err(bad("4 or 6")),
                }
            }
            "as" => {
                self.shape.ptp = match value {
                    "udp" => false,
                    "ptp" => true,
                    _ => return Err(bad("udp or ptp")),
                }
            }
            "burst" => {
                let burst = value.parse().ok().filter(|burst| (1..=1_024).contains(burst));
                self.burst = burst.ok_or_else(|| bad("frames that are due at one time, 1 to 1024"))?;
            }
            "way" => {
                self.ways = Some(ways(value).ok_or_else(|| bad("ab, ba or both"))?);
            }
            _ => return Err(format!("there is no key {key}: flows, vlan, ip, as, networks, burst and way are")),
        }
        Ok(())
    }

    /// When its frames are due.
    ///
    /// # Errors
    /// As [`IntendedLoad::pacing`].
    pub fn pacing(&self) -> Result<Pacing, String> {
        self.asked.unwrap_or(IntendedLoad::Max).pacing(self.shape.mean_size(), self.burst)
    }

    /// The same for a probe, one of which is in flight at a time.
    ///
    /// # Errors
    /// As [`IntendedLoad::pacing`].
    pub fn probe(&self) -> Result<Pacing, String> {
        Ok(match self.asked.map(|asked| asked.pacing(self.shape.mean_size(), 1)).transpose()? {
            Some(Pacing::Rate { milli, .. }) => Pacing::Probe(Some(milli)),
            _ => Pacing::Probe(None),
        })
    }
}

/// A capture that is sent again, before it is read.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplaySpec {
    /// Where it is.
    pub file: PathBuf,
    /// Frames per second; `None`: at the capture's own times.
    pub asked: Option<IntendedLoad>,
    /// How often; zero: until the trial ends.
    pub times: u64,
    /// Which ways: there, and back; `None`: not said.
    pub ways: Option<[bool; 2]>,
}

impl ReplaySpec {
    /// Reads `FILE[,key=value]…`: keys are `rate` (as of streams, or
    /// `original`, the usual: the capture's own times), `loop` (how often; `on`,
    /// until the trial ends), and `way`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let file = parts.next().filter(|file| !file.is_empty()).ok_or("write the capture's file")?;
        let mut spec = Self { file: file.into(), asked: None, times: 1, ways: None };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not of the form key=value"))?;
            match key {
                "rate" if value == "original" => spec.asked = None,
                "rate" => spec.asked = Some(IntendedLoad::parse(value)?),
                "loop" if value == "on" => spec.times = 0,
                "loop" => {
                    let times = value.parse().ok().filter(|times| *times > 0);
                    spec.times = times.ok_or("loop takes how often, or on: until the end")?;
                }
                "way" => spec.ways = Some(ways(value).ok_or("way takes ab, ba or both")?),
                _ => return Err(format!("there is no key {key}: rate, loop and way are")),
            }
        }
        Ok(spec)
    }

    /// The stream that it is, with the frames of the file.
    ///
    /// # Errors
    /// As [`IntendedLoad::pacing`].
    pub fn stream(&self, name: &str, frames: Replay, usual: [bool; 2]) -> Result<Stream, String> {
        let original = self.asked.is_none();
        // What a loop makes of it on average; each frame has a time of its own.
        let mean = frames.len() as f64 * 1e9 / frames.period_ns() as f64;
        let replay = Replayed { frames: Arc::new(frames), times: self.times, original };
        let shape = Shape { replay: Some(replay), ..Shape::default() };
        let pacing = match self.asked {
            Some(asked) => asked.pacing(shape.mean_size(), 1)?,
            None => Pacing::Rate { milli: (mean * MILLI as f64).max(1.0) as u64, burst: 1 },
        };
        Ok(Stream { name: name.to_owned(), shape, pacing, ways: self.ways.unwrap_or(usual) })
    }
}

fn ways(text: &str) -> Option<[bool; 2]> {
    match text {
        "ab" => Some([true, false]),
        "ba" => Some([false, true]),
        "both" => Some([true, true]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_are_read_as_they_are_meant() {
        let spec = ReplaySpec::parse("a.pcap,rate=100k,loop=on,way=ba").expect("right");
        assert_eq!((spec.times, spec.ways, spec.asked), (0, Some([false, true]), Some(IntendedLoad::Frames(1e5))));
        let spec = ReplaySpec::parse("a.pcap,rate=original,loop=3").expect("right");
        assert_eq!((spec.times, spec.ways, spec.asked), (3, None, None));
        for (text, reason) in [
            ("", "file"),
            ("a,b", "key=value"),
            ("a,loop=0", "loop takes"),
            ("a,rate=x", "no rate"),
            ("a,way=up", "way takes"),
            ("a,size=64", "no key"),
        ] {
            let told = ReplaySpec::parse(text).expect_err(text);
            assert!(told.contains(reason), "{text}: {told}");
        }
    }

    #[test]
    fn streams_are_read_as_they_are_meant() {
        let pacing = |text: &str| Spec::parse(text).and_then(|spec| spec.pacing());
        assert_eq!(pacing("64:1M"), Ok(Pacing::Rate { milli: 1_000_000_000, burst: 1 }));
        assert_eq!(pacing("64B:0.5,burst=32"), Ok(Pacing::Rate { milli: 500, burst: 32 }));
        // Line rate of 10 Gbit/s at 64 bytes.
        assert_eq!(pacing("64:10Gbit"), Ok(Pacing::Rate { milli: 14_880_952_381, burst: 1 }));
        assert_eq!((pacing("1518:max"), pacing("1518")), (Ok(Pacing::Max), Ok(Pacing::Max)));
        assert_eq!(Spec::parse("76B").and_then(|spec| spec.probe()), Ok(Pacing::Probe(None)));
        assert_eq!(Spec::parse("76:10k").and_then(|spec| spec.probe()), Ok(Pacing::Probe(Some(10_000_000))));
        let spec = Spec::parse("imix:1k,flows=random:100,vlan=7,ip=6,way=ba").expect("right");
        assert_eq!((spec.shape.flows, spec.shape.random, spec.shape.vlan), (100, true, Some(7)));
        assert_eq!((spec.ways, spec.shape.sizes.len()), (Some([false, true]), 48));
        // 14 + 4 + 40 + 8 + 18 + 4
        assert_eq!((spec.shape.smallest(), spec.shape.sizes.iter().min()), (88, Some(&88)));
    }

    #[test]
    fn what_is_no_stream_says_why() {
        for (text, reason) in [
            ("", "no size"),
            ("63", "no size"),
            ("64:", "no rate"),
            ("64:-1", "no rate"),
            ("64:1e6", "no rate"),
            ("64:2000000M", "a rate is from"),
            ("64:1k,flows=0", "flows takes"),
            ("64:1k,vlan=4095", "vlan takes"),
            ("64:1k,networks=257", "networks takes"),
            ("64:1k,vlan=1", "68 at least"),
            ("64:1k,ip=6", "84 at least"),
            ("64:1k,speed=1", "no key"),
            ("64:1k,x", "key=value"),
            ("64:1k,way=up", "way takes"),
            ("64:1k,as=tcp", "as takes"),
            ("64:1k,as=ptp", "70 at least"),
            ("64:1k,burst=0", "burst takes"),
        ] {
            let told = Spec::parse(text).and_then(|spec| spec.pacing()).expect_err(text);
            assert!(told.contains(reason), "{text}: {told}");
        }
    }
}
