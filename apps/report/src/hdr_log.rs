//! HdrHistogram's interval log, format version 1.3: a compressed histogram
//! for each interval of a run, in text lines that its tools for any language
//! merge, cut and plot.

use core::time::Duration;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use std::io::{self, Write};

/// The column of maxima is in milliseconds, as the original's writer has it
/// for histograms in nanoseconds.
const MAX_DIVISOR: f64 = 1e6;

/// An interval log under way. Each line reaches the output when it is
/// written; buffer it outside, or not at all.
#[derive(Debug)]
pub struct HdrLog<W> {
    out: W,
}

impl<W: Write> HdrLog<W> {
    /// Writes the head. `started` is the wall clock at the start of the run,
    /// since the Unix epoch; intervals are stamped relative to it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn begin(mut out: W, started: Duration, what: &str) -> io::Result<Self> {
        let since_epoch = started.as_secs_f64();
        let what = what.replace(['\n', '\r'], " ");
        let mut head = format!("#[nearside load: {what}]\n#[Histogram log format version 1.3]\n");
        for name in ["StartTime", "BaseTime"] {
            head.push_str(&format!("#[{name}: {since_epoch:.3} (seconds since epoch)]\n"));
        }
        head.push_str("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
        out.write_all(head.as_bytes())?;
        Ok(Self { out })
    }

    /// Writes one interval's histogram: `start` is since the start of the
    /// run. `tag` tells several histograms of one interval apart; the usual
    /// tools read those without a tag. Blanks and commas in it become `-`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn interval(
        &mut self,
        tag: Option<&str>,
        start: Duration,
        length: Duration,
        histogram: &Histogram<u64>,
    ) -> io::Result<()> {
        let tag = tag.map(|tag| tag.replace([',', ' ', '\r', '\n'], "-"));
        let tag = tag.as_deref().and_then(Tag::new);
        // The crate's writer borrows its output for as long as it lives, and
        // begins with a comment on the divisor: the line alone is passed on.
        let mut text = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .with_max_value_divisor(MAX_DIVISOR)
            .begin_log_with(&mut text, &mut serializer)?
            .write_histogram(histogram, start, length, tag)
            .map_err(|why| match why {
                IntervalLogWriterError::IoError(why) => why,
                IntervalLogWriterError::SerializeError(why) => io::Error::other(why.to_string()),
            })?;
        let line = text.split_inclusive(|byte| *byte == b'\n').rfind(|line| !line.starts_with(b"#"));
        self.out.write_all(line.unwrap_or_default())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use load::Recorder;

    fn spans(nanos: &[u64]) -> Histogram<u64> {
        let mut recorder = Recorder::new();
        nanos.iter().for_each(|span| recorder.record(*span));
        recorder.histogram()
    }

    fn log() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut log =
            HdrLog::begin(&mut bytes, Duration::from_millis(1_795_000_000_250), "GET\nhttp://a/").expect("memory");
        let second = Duration::from_secs(1);
        for (start, tag, nanos) in [
            (0, None, vec![1_000_000, 2_000_000, 2_000_000]),
            (0, Some("2xx, all"), vec![2_000_000]),
            (1, None, vec![30_000_000]),
        ] {
            log.interval(tag, second * start, second, &spans(&nanos)).expect("memory");
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = log();
        let entries: Vec<LogEntry> = IntervalLogIterator::new(&bytes).map(|entry| entry.expect("a line")).collect();
        let [
            LogEntry::StartTime(start),
            LogEntry::BaseTime(base),
            LogEntry::Interval(first),
            LogEntry::Interval(tagged),
            LogEntry::Interval(second),
        ] = &entries[..]
        else {
            panic!("{entries:?}");
        };
        assert_eq!((start, base), (&Duration::from_millis(1_795_000_000_250), start));
        assert_eq!(tagged.tag().map(|tag| tag.as_str().to_owned()), Some("2xx--all".into()));
        assert_eq!((second.start_timestamp(), second.duration()), (Duration::from_secs(1), Duration::from_secs(1)));
        // The end of the longest span's bucket, in milliseconds.
        assert!((first.max() - 2.0).abs() < 0.002, "{}", first.max());
        let packed = decode(first.encoded_histogram());
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut packed.as_slice()).expect("a histogram");
        assert_eq!(read, spans(&[1_000_000, 2_000_000, 2_000_000]));
    }

    /// Against the format's own description, and not only the crate's reader.
    #[test]
    fn lines_are_those_of_format_1_3() {
        let text = String::from_utf8(log()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "#[nearside load: GET http://a/]",
                "#[Histogram log format version 1.3]",
                "#[StartTime: 1795000000.250 (seconds since epoch)]",
                "#[BaseTime: 1795000000.250 (seconds since epoch)]",
                "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
            ]
        );
        assert_eq!(lines.len(), 8);
        for (line, start) in [
            (lines[5], "0.000,1.000,2.00"),
            (lines[6], "Tag=2xx--all,0.000,1.000,2.00"),
            (lines[7], "1.000,1.000,30.0"),
        ] {
            assert!(line.starts_with(start), "{line}");
            let packed = decode(line.rsplit(',').next().expect("the last column"));
            // The cookie of a compressed V2 histogram (0x1c849304, with the
            // 0x10 of V2), then the length of a zlib stream (RFC 1950).
            assert_eq!(packed[..4], [0x1c, 0x84, 0x93, 0x14]);
            let length = u32::from_be_bytes([packed[4], packed[5], packed[6], packed[7]]);
            assert_eq!((length as usize, packed[8] & 0x0f), (packed.len() - 8, 8));
        }
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let taken = bytes.len().min(self.0);
                self.0 -= taken;
                if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(HdrLog::begin(Full(10), Duration::ZERO, "").is_err());
        let mut log = HdrLog::begin(Full(400), Duration::ZERO, "").expect("room for the head");
        let all = (0..9).try_for_each(|_| log.interval(None, Duration::ZERO, Duration::ZERO, &spans(&[1])));
        assert_eq!(all.map_err(|why| why.kind()), Err(io::ErrorKind::StorageFull));
    }

    /// RFC 4648 §4, without the crate that encoded it.
    fn decode(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits: Vec<u32> =
            text.bytes().filter_map(|byte| ALPHABET.iter().position(|own| *own == byte)).map(|n| n as u32).collect();
        let mut bytes = Vec::new();
        for group in digits.chunks(4) {
            let word = group.iter().enumerate().fold(0, |word, (n, digit)| word | digit << (18 - 6 * n));
            bytes.extend(&word.to_be_bytes()[1..group.len()]);
        }
        bytes
    }
}
